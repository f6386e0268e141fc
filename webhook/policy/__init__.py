"""The policy file: YAML, typed with pydantic, checked whole, and read again when it changes.

What comes out is the frozen `webhook.engine.policy.Policy`. Only this package imports pydantic, which takes a tenth
of a second: `check` without a policy file does not import it.
"""

from webhook.policy.known_rules import KNOWN_RULES
from webhook.policy.parse import parse_policy, policy_schema, read_policy
from webhook.policy.problem import PolicyError
from webhook.policy.watch import PolicyFile

__all__ = ["KNOWN_RULES", "PolicyError", "PolicyFile", "parse_policy", "policy_schema", "read_policy"]
