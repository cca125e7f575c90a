"""Write model.json: the operations in botocore's service model of S3, with their methods, headers and parameters.

    python3 s3/testdata/model.py > s3/testdata/model.json

The source is botocore/data/s3/2006-03-01/service-2.json.gz of the installed botocore (https://github.com/boto/botocore).
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
    """Return the wire names of the members of a shape at a location."""
    found = shapes[shape]["members"].values() if shape else []
    return sorted(m["locationName"] for m in found if m.get("location") == location)


def operation(name, o):
    path, _, query = o["http"]["requestUri"].partition("?")
    level = "object" if "{Key+}" in path else "bucket" if "{Bucket}" in path else "service"
    fixed = [p for p in query.split("&") if p and not p.startswith("x-id=")]
    request, response = o.get("input", {}).get("shape"), o.get("output", {}).get("shape")
    required = set(shapes[request].get("required", [])) if request else set()
    needed = [m.get("locationName") for n, m in shapes[request]["members"].items() if n in required] if request else []
    entry = {
        "name": name, "method": o["http"]["method"], "level": level,
        "fixed": fixed,
        "needed": sorted(n for n in needed if n in members(request, "querystring") + members(request, "header")),
        "query": members(request, "querystring"), "headers": members(request, "header"),
        "response": members(response, "header"),
    }
    if level == "service" and path != "/":
        entry["path"] = path
    if re.match(r"^\{", o.get("endpoint", {}).get("hostPrefix", "")):
        entry["host"] = o["endpoint"]["hostPrefix"]
    return {k: v for k, v in entry.items() if v}


rows = [json.dumps(operation(n, o)) for n, o in sorted(model["operations"].items())]
print('{"source": "botocore %s", "operations": [\n%s\n]}' % (botocore.__version__, ",\n".join(rows)))
