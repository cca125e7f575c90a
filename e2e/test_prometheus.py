"""Metrics as a Prometheus of Debian sees them: exact counts of a load, tokens, and the last values of a stopped server."""

import os
import time

import urllib3

from monitoring import Load, admin_url, eventually, prometheus, promtool, scrape  # noqa: F401 (prometheus is a fixture)

ADMIN = ["--admin-address", "127.0.0.1:0"]
TOKEN = "a-token-of-some-length"


def check_counts(load, value):
    """Checks that counters have exactly the counts of a load. value returns the value of a series."""
    for (operation, status), n in load.requests.items():
        assert value(f'orcas_s3_requests_total{{operation="{operation}",status="{status}"}}') == n, (operation, status)
    for operation in {o for o, _ in load.requests}:
        n = sum(c for (o, _), c in load.requests.items() if o == operation)
        assert value(f'orcas_s3_request_duration_seconds_count{{operation="{operation}"}}') == n, operation
        assert value(f'orcas_s3_received_bytes_total{{operation="{operation}"}}') == load.received[operation], operation
        assert value(f'orcas_s3_sent_bytes_total{{operation="{operation}"}}') == load.sent[operation], operation
    strangers, anonymous = load.requests["Unknown", "403"], load.requests["GetObject", "403"]
    assert value('orcas_s3_rejections_total{reason="authentication"}') == strangers > 0
    assert value('orcas_s3_rejections_total{reason="authorization"}') == anonymous > 0
    assert value("orcas_s3_requests_in_flight") == 0


def values(text):
    """The value of each series in the text format."""
    return {series: float(v) for series, _, v in (line.rpartition(" ") for line in text.splitlines() if line[:1] != "#")}


def test_counters_equal_the_counts_of_the_load(start, prometheus):
    server = start(*ADMIN)
    monitor = prometheus(server)
    load = Load(server)
    for _ in range(2):
        load.run(turns=30)
        ended, scrapes = time.monotonic(), 0

        def equal():
            nonlocal scrapes
            scrapes += 1
            check_counts(load, values(scrape(server)).get)

        eventually(equal)  # a request is counted just after its response was sent
        print(f"/metrics had the counts of the load in scrape {scrapes}, {time.monotonic() - ended:.3f} s after its end")
        eventually(lambda: check_counts(load, monitor.value))
    assert load.received["PutObject"] > 0 and load.sent["GetObject"] > 0
    total = sum(load.requests.values())
    assert monitor.value("sum(orcas_s3_requests_total)") == total
    eventually(lambda: monitor.value('up{job="orcas"}'))
    assert monitor.value('orcas_s3_requests_total{operation="PutObject",status="200"}') == monitor.value(
        'orcas_s3_first_byte_seconds_count{operation="PutObject"}')
    assert monitor.value("orcas_batch_objects_sum") >= load.requests["PutObject", "200"]
    assert monitor.value("orcas_fdatasync_seconds_count") > 0
    promtool("check", "metrics", input=scrape(server))

    # The last values are in a file after a stop.
    load.run(turns=2)
    assert server.stop() == 0, server.log
    saved = (server.data / "metrics.prom").read_text()
    check_counts(load, values(saved).get)
    promtool("check", "metrics", input=saved)


def test_token(start, prometheus, tmp_path):
    token, wrong = tmp_path / "token", tmp_path / "wrong"
    token.write_text(TOKEN + "\n")
    wrong.write_text(TOKEN + "?\n")
    os.chmod(token, 0o640)
    server = start("--admin-address", "0.0.0.0:0", "--admin-tls-self-signed", env={"ORCAS_METRICS_TOKEN_FILE": str(token)})
    port = admin_url(server).rpartition(":")[2].rstrip("/")
    ca = str(server.data / "admin-self-signed.crt")
    more = {
        "scheme": "https", "tls_config": {"ca_file": ca}, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}],
    }
    right = prometheus(server, **more, authorization={"credentials_file": str(token)})
    other = prometheus(server, **more, authorization={"credentials_file": str(wrong)})

    def up():
        assert right.value("up") == 1

    def refused():
        assert other.value("up") == 0

    eventually(up)
    eventually(refused)
    assert "403" in other.get("targets")["activeTargets"][0]["lastError"]
    with urllib3.PoolManager(ca_certs=ca) as pool:
        url = f"https://127.0.0.1:{port}/metrics"
        assert pool.request("GET", url).status == 401
        assert pool.request("GET", url, headers={"Authorization": f"Bearer {TOKEN}"}).status == 200
    assert TOKEN not in server.log


def test_without_token_only_this_machine(start):
    server = start(*ADMIN)
    url = admin_url(server) + "/metrics"
    assert urllib3.request("GET", url).status == 200
    assert urllib3.request("GET", url, headers={"Host": "rebound.example.org"}).status == 403
    server.stop()
    server = start("--admin-address", "0.0.0.0:0", "--admin-insecure")
    port = admin_url(server).rpartition(":")[2].rstrip("/")
    response = urllib3.request("GET", f"http://127.0.0.1:{port}/metrics")
    assert response.status == 403 and b"ORCAS_METRICS_TOKEN_FILE" in response.data
