"""Writes model.json: the operations of S3 as botocore's service model names them, with their methods, headers and parameters.

    python3 s3/testdata/model.py > s3/testdata/model.json

The source is botocore/data/s3/2006-03-01/service-2.json.gz of the botocore that is installed (https://github.com/boto/botocore).
"""
import gzip
import json
import os
import re

import botocore

folder = os.path.join(os.path.dirname(botocore.__file__), "data", "s3", "2006-03-01")
with gzip.open(os.path.join(folder, "service-2.json.gz")) as f:
    model = json.load(f)
shapes = model["shapes"]


def members(shape, location):
    """The names on the wire of a shape's members at a location."""
    found = shapes[shape]["members"].values() if shape else []
    return sorted(m["locationName"] for m in found if m.get("location") == location)


def operation(name, o):
    path, _, query = o["http"]["requestUri"].partition("?")
    level = "object" if "{Key+}" in path else "bucket" if "{Bucket}" in path else "service"
    fixed = [p for p in query.split("&") if p and not p.startswith("x-id=")]
    given, answer = o.get("input", {}).get("shape"), o.get("output", {}).get("shape")
    required = set(shapes[given].get("required", [])) if given else set()
    needed = [m.get("locationName") for n, m in shapes[given]["members"].items() if n in required] if given else []
    entry = {
        "name": name, "method": o["http"]["method"], "level": level,
        "fixed": fixed,
        "needed": sorted(n for n in needed if n in members(given, "querystring") + members(given, "header")),
        "query": members(given, "querystring"), "headers": members(given, "header"), "answer": members(answer, "header"),
    }
    if level == "service" and path != "/":
        entry["path"] = path
    if re.match(r"^\{", o.get("endpoint", {}).get("hostPrefix", "")):
        entry["host"] = o["endpoint"]["hostPrefix"]
    return {k: v for k, v in entry.items() if v}


rows = [json.dumps(operation(n, o)) for n, o in sorted(model["operations"].items())]
print('{"source": "botocore %s", "operations": [\n%s\n]}' % (botocore.__version__, ",\n".join(rows)))
