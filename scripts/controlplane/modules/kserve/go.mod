module floorkeeper.io/controlplane/kserve

go 1.26.0

require github.com/kserve/kserve v0.19.0
