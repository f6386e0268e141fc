"""The spelling of names, labels and patterns in a policy, as Kubernetes validates them (apimachinery v0.36).

Each function answers with the text it was given, and raises ValueError('what is wrong; what to do') for a bad one.
"""

from __future__ import annotations

import re

SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
QUALIFIED = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
LABEL_VALUE = rf"({QUALIFIED})?"
LABEL_KEY = rf"({SUBDOMAIN}/)?{QUALIFIED}"
RESOURCE = rf"{SUBDOMAIN}/{QUALIFIED}"
RESOURCE_PATTERN = rf"{SUBDOMAIN}/(\*|[A-Za-z0-9][-A-Za-z0-9_.]*\*|{QUALIFIED})"
PERCENTAGE = r"([1-9][0-9]?|100)%"
DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
KIND = r"[A-Z][A-Za-z0-9]*"
PLURAL = r"[a-z]([-a-z0-9]*[a-z0-9])?"
VERSION = r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?"
FIELD = r"[A-Za-z_][A-Za-z0-9_]*"
FIELD_PATH = rf"{FIELD}(\.{FIELD})*"
TEMPLATE_PATH = rf"{FIELD_PATH}((\[\*\]|\{{\*\}})(\.{FIELD})*)?"
NAME_PREFIX = r"[a-z0-9][-.a-z0-9]*\*"
NAMESPACE_PATTERN = r"[a-z0-9*]([-a-z0-9*]*[a-z0-9*])?"
WORKLOAD_PATTERN = r"[a-z0-9*]([-.a-z0-9*]*[a-z0-9*])?"

_PREFIX = 253  # characters of a DNS-1123 subdomain
_NAME = 63  # characters of a label value, and of a qualified name after its prefix
_SHOWN = 40


def shown(text: str) -> str:
    """The text in quotes, on one line, cut if long."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


def subdomain(text: str) -> str:
    """A DNS-1123 subdomain: the name of most objects."""
    if len(text) > _PREFIX or not re.fullmatch(SUBDOMAIN, text):
        raise ValueError(
            f"must be a DNS-1123 name, is {shown(text)}; "
            f"use a-z, 0-9, - and ., begin and end with a letter or digit, {_PREFIX} characters at the most"
        )
    return text


def queue_name(text: str) -> str:
    """The name of a LocalQueue: it becomes the value of a label, which is shorter than a name can be."""
    if len(subdomain(text)) > _NAME:
        raise ValueError(
            f"must fit a label value of {_NAME} characters, has {len(text)}; give the LocalQueue a shorter name"
        )
    return text


def label_key(text: str) -> str:
    """A qualified name, as label keys and taint keys are: name, or prefix/name."""
    if not _is_qualified(text, LABEL_KEY):
        raise ValueError(
            f"must be a label key, is {shown(text)}; write name or prefix/name, the name with letters, digits, -, _ "
            f"and . and {_NAME} characters at the most, the prefix a DNS-1123 name"
        )
    return text


def label_value(text: str) -> str:
    if len(text) > _NAME or not re.fullmatch(LABEL_VALUE, text):
        raise ValueError(
            f"must be a label value, is {shown(text)}; use letters, digits, -, _ and ., "
            f"begin and end with a letter or digit, {_NAME} characters at the most"
        )
    return text


def taint_key(text: str) -> str:
    """A taint's key alone, as kubectl describe shows it before '=' or ':'."""
    if not _is_qualified(text, LABEL_KEY):
        raise ValueError(f"must be the key of a taint, is {shown(text)}; write the key alone, without value and effect")
    return text


def resource(text: str) -> str:
    """The exact name of an extended resource: domain/name."""
    if not _is_qualified(text, RESOURCE):
        raise ValueError(f"must be domain/name, is {shown(text)}; write for example nvidia.com/gpu")
    return text


def resource_pattern(text: str) -> str:
    """An extended resource, or all that begin alike. A pattern without a domain could reach cpu and memory."""
    if not _is_qualified(text, RESOURCE_PATTERN):
        raise ValueError(
            f"must be domain/name or domain/prefix*, is {shown(text)}; write for example nvidia.com/gpu or "
            "nvidia.com/mig-* (a name without a domain, such as cpu, is no accelerator)"
        )
    return text


def _is_qualified(text: str, pattern: str) -> bool:
    prefix, _, name = text.rpartition("/")
    # The lengths come first: they bound what the pattern has to look at.
    return len(prefix) <= _PREFIX and len(name) <= _NAME and re.fullmatch(pattern, text) is not None


def class_pattern(text: str) -> str:
    """The name of a RuntimeClass, or all that begin alike."""
    if len(text) > _PREFIX or not re.fullmatch(f"{SUBDOMAIN}|{NAME_PREFIX}", text):
        raise ValueError(
            f"must be the name of a RuntimeClass or prefix*, is {shown(text)}; write for example nvidia or nvidia-*"
        )
    return text


def kind(text: str) -> str:
    if len(text) > _NAME or not re.fullmatch(KIND, text):
        raise ValueError(f"must be the name of a kind, is {shown(text)}; write it as in manifests, such as TrainingRun")
    return text


def plural(text: str) -> str:
    """A resource's name in URLs, in RBAC and in webhook configurations."""
    if len(text) > _NAME or not re.fullmatch(PLURAL, text):
        raise ValueError(
            f"must be the plural name of the resource, is {shown(text)}; write it as kubectl api-resources does"
        )
    return text


def version(text: str) -> str:
    if text != "*" and not (len(text) <= _NAME and re.fullmatch(VERSION, text)):
        raise ValueError(f"must be an API version, is {shown(text)}; write for example v1 or v1beta1, or * for all")
    return text


def field_path(text: str) -> str:
    if len(text) > _PREFIX or not re.fullmatch(FIELD_PATH, text):
        raise ValueError(f"must be a path of fields, is {shown(text)}; write for example spec.strategy.rollingUpdate")
    return text


def template_path(text: str) -> str:
    """A path of fields, one of which may be a list or a mapping of which everything counts."""
    if len(text) > _PREFIX or not re.fullmatch(TEMPLATE_PATH, text):
        raise ValueError(
            f"must be the path of a pod template, is {shown(text)}; write for example spec.template, "
            "spec.groups[*].template for a list or spec.roles{*}.template for a mapping, and no more than one *"
        )
    return text


def label_place(text: str) -> str:
    if len(text) > _PREFIX or not re.fullmatch(FIELD_PATH, text):
        raise ValueError(f"must be templates, object or a path of fields, is {shown(text)}; write one of these")
    return text


def namespace_pattern(text: str) -> str:
    if len(text) > _NAME or not re.fullmatch(NAMESPACE_PATTERN, text):
        raise ValueError(
            f"must be a namespace or a pattern, is {shown(text)}; "
            f"use a-z, 0-9 and -, and * for any characters, {_NAME} characters at the most"
        )
    return text


def workload_pattern(text: str) -> str:
    if len(text) > _PREFIX or not re.fullmatch(WORKLOAD_PATTERN, text):
        raise ValueError(
            f"must be a workload's name or a pattern, is {shown(text)}; "
            f"use a-z, 0-9, - and ., and * for any characters, {_PREFIX} characters at the most"
        )
    return text


def subject_name(text: str) -> str:
    """A user or a group, exactly as the API server names it in a review."""
    if not text or text != text.strip():
        raise ValueError(f"must be an exact name, is {shown(text)}; write it without spaces around it")
    if "*" in text:
        raise ValueError(f"must be an exact name, is {shown(text)}; list each name, * stands for itself here")
    return text
