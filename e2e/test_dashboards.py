"""Debian's prometheus scrapes servers in use: every query of every dashboard and every alert returns a series, and promtool
accepts the rules."""

import json
import re

import botocore.exceptions
import pytest

from conftest import ROOT, pattern
from monitoring import Load, eventually, prometheus, promtool  # noqa: F401 (prometheus is a fixture)
from test_operations import admin, orcas

DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "alerts.yaml"


def dashboard_queries():
    """Yields each query of each dashboard, with values for the variables of Grafana."""
    for file in sorted((DEPLOY / "grafana").glob("*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel.get("targets", []):
                expression = target["expr"].replace("$__rate_interval", "2m").replace("$__range", "10m")
                expression = re.sub(r"\$(instance|operation|bucket)\b", ".*", expression)
                assert "$" not in expression
                yield f"{file.stem}: {panel['title']}", expression


def alert_queries():
    """Yields the expression of each alert without its threshold: with "bool", a comparison returns 0 or 1 for each series."""
    for rule in RULES.read_text().split("- alert: ")[1:]:
        name, _, rest = rule.partition("\n")
        expression = re.search(r"expr: (?:>-)?(.*?)\n        (?:for|labels):", rest, re.DOTALL).group(1)
        expression, compared = re.subn(r"(?<=\s)(==|!=|<=|>=|<|>)(?=\s)", r"\1 bool", " ".join(expression.split()))
        assert compared, name
        yield name, expression


def use(server):
    """Uses a server in the ways that the dashboards show: versions, an unfinished upload, reads, refused requests."""
    s3 = server.client()
    s3.create_bucket(Bucket="versioned")
    s3.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})
    for i in range(30):
        s3.put_object(Bucket="versioned", Key=f"small/{i % 10}", Body=pattern(2000 + i, i))
    for key in "large", "larger":
        s3.put_object(Bucket="versioned", Key=key, Body=pattern(700_000, key))
    s3.delete_object(Bucket="versioned", Key="small/1")
    upload = s3.create_multipart_upload(Bucket="versioned", Key="unfinished")["UploadId"]
    s3.upload_part(Bucket="versioned", Key="unfinished", UploadId=upload, PartNumber=1, Body=pattern(5 << 20, 3))
    for key in "large", "small/2":
        s3.get_object(Bucket="versioned", Key=key)["Body"].read()
        etag = s3.head_object(Bucket="versioned", Key=key)["ETag"]
    s3.list_objects_v2(Bucket="versioned")
    assert refused(s3.get_object, Bucket="versioned", Key="small/2", IfNoneMatch=etag) == 304
    assert refused(server.client(aws_secret_access_key="wrong").list_buckets) == 403
    orcas(server, "admin", "reclaim", "--wait", "--admin-address", admin(server))
    orcas(server, "admin", "scrub", "--wait", "--admin-address", admin(server))


def refused(operation, **arguments):
    """Returns the status of a request that must fail."""
    with pytest.raises(botocore.exceptions.ClientError) as info:
        operation(**arguments)
    return info.value.response["ResponseMetadata"]["HTTPStatusCode"]


def lose_blocks(server):
    """Removes the blocks of large objects, so that reading one is an internal error, and a restart is read-only."""
    large = [f for f in (server.data / "blocks").rglob("*") if f.is_file() and 600_000 < f.stat().st_size < 1_000_000]
    assert len(large) == 2
    for file in large:
        file.unlink()


@pytest.fixture
def scraped(start, prometheus, tmp_path):
    """A Prometheus that scrapes servers in use, in the modes that have metrics of their own. One of them has load during the
    test, and one is broken."""
    strict = start("--tls-self-signed", "--admin-address", "127.0.0.1:0", data=tmp_path / "strict",
                   env={"ORCAS_MEMORY": "1GiB", "ORCAS_AUDIT_FILE": str(tmp_path / "audit.log")})
    relaxed = start("--admin-address", "127.0.0.1:0", data=tmp_path / "relaxed", env={"ORCAS_DURABILITY": "relaxed"})
    broken = start("--admin-address", "127.0.0.1:0", data=tmp_path / "broken")
    monitor = prometheus(strict, relaxed, broken, rules=[RULES])
    for server in strict, relaxed, broken:
        use(server)
    broken.kill()
    lose_blocks(broken)
    broken = start("--admin-address", admin(broken), data=tmp_path / "broken")

    def is_read_only():  # it compares the blocks in the background
        assert broken.http("GET", "/-/health/ready").status == 503

    eventually(is_read_only)
    s3 = broken.client()
    assert refused(s3.get_object, Bucket="versioned", Key="large") == 500
    assert refused(s3.put_object, Bucket="versioned", Key="new", Body=b"new") == 503
    with Load(strict).running():
        yield monitor


def test_every_query_returns_a_series(scraped):
    missing = [*dashboard_queries(), *alert_queries()]
    assert len(missing) > 130

    def all_return():
        nonlocal missing
        missing = [(name, expression) for name, expression in missing if not scraped.query(expression)]
        assert not missing, "no series:\n" + "\n".join(f"{name}: {expression}" for name, expression in missing)

    eventually(all_return)


def test_alerts_of_a_broken_server(scraped):
    """The server whose blocks were removed has alerts, and the others have none."""
    def instances(expression):
        return {labels["instance"] for labels, _ in scraped.query(expression)}

    def are_active():
        broken = instances('orcas_state{state="readonly"} == 1')
        assert len(broken) == 1
        for alert in "OrcasMissingBlocks", "OrcasLostObjects", "OrcasReadOnly":
            assert instances(f'ALERTS{{alertname="{alert}"}}') == broken, alert
        assert instances('ALERTS{alertstate="firing"}') == broken, scraped.query("ALERTS")

    eventually(are_active)


def test_rules_pass_their_tests():
    promtool("check", "config", "prometheus.yml", cwd=RULES.parent)
    promtool("test", "rules", "alerts_test.yaml", cwd=RULES.parent)
