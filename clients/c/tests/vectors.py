#!/usr/bin/env python3
"""Hands the golden vectors to the checker as plain lines: vectors.py FOLDER CHECKER."""

import json
import pathlib
import subprocess
import sys


def keys(fields):
    return [fields["key_hex"]] if "key_hex" in fields else fields["keys_hex"]


def line(case):
    """The checker's line, or None for what a client cannot get wrong."""
    ok = case["expect"] == "ok"
    fields = case.get("fields", {})
    what = case["direction"]
    data = case["hex"] or "-"
    if what == "request" and ok:
        number = f"{fields['wait']} {fields['lease']}" if fields["op"] in "AS" else f"{fields['token']} 0"
        return f"request {case['id']} {data} {fields['op']} {fields['request_id']} {number} {' '.join(keys(fields))}"
    if what == "request":
        # A single bad key must be refused before it is sent; the rest cannot be expressed.
        is_bad_key = str(case.get("code")) == "1" and "key_hex" in fields
        return f"bad-key {case['id']} {fields['key_hex'] or '-'}" if is_bad_key else None
    if what == "reply" and ok:
        detail = fields.get("slot", fields.get("code", "0"))
        rest = f"{fields.get('request_id', '0')} {fields.get('token', '0')} {detail}"
        return f"reply {case['id']} {data} {case['voter_count']} {fields['op']} {rest}"
    if what == "reply":
        requests = " ".join(case.get("requests_hex", []))
        kind = "uncorrelated" if case["layer"] == "correlation" else "bad-reply"
        return f"{kind} {case['id']} {data} {case['voter_count']} {requests}"
    if what == "hello" and len(case["hex"]) == 56:
        return f"hello {case['id']} {data} {case['expected_slot']} {int(ok)}"
    if what == "proof" and ok:
        head = f"54434b434c493300{int(fields['version']):04x}"
        mode = "00" if case["mode"] == "single" else "01"
        hello = f"{head}{mode}{int(fields['slot']):02x}{fields['nonce_hex']}"
        return f"proof {case['id']} {data} {hello} {fields['slot']} {fields['fingerprint_hex']} {fields['token_hex'] or '-'}"
    return None


def main():
    folder, checker = sys.argv[1:]
    lines = []
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        topic = json.loads(path.read_text())
        assert len(topic["cases"]) == topic["case_count"], path
        lines += [text for text in map(line, topic["cases"]) if text is not None]
    assert len(lines) > 300, len(lines)
    result = subprocess.run([checker, str(len(lines))], input="\n".join(lines) + "\n", text=True)
    sys.exit(result.returncode)


main()
