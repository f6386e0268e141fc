-- For wrk. Sends the request of a file over and over, each time with another number in place of the marker:
-- wrk … URL -- FILE MARKER FIRST. At the end it prints what came of it as one line of JSON.
local parts, number = {}, 0

function init(args)
  local file = assert(io.open(args[1], "rb"))
  local text, marker = file:read("*a"), args[2]
  file:close()
  number = tonumber(args[3])
  local from = 1
  while true do
    local first, last = text:find(marker, from, true)
    parts[#parts + 1] = text:sub(from, (first or 0) - 1)
    if not first then return end
    from = last + 1
  end
end

function request()
  number = number + 1
  return table.concat(parts, ("%012d"):format(number))
end

function done(summary, latency)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(("\n{\"requests\": %d, \"microseconds\": %d, \"failed\": %d, \"p50\": %d, \"p99\": %d}\n"):format(
    summary.requests, summary.duration, failed, latency:percentile(50), latency:percentile(99)))
end
