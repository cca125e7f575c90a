"""The API of IAM and STS, with aws-cli and boto3: what people type, and the calls that Terraform's AWS provider makes."""

import datetime
import hashlib
import json
import re
import urllib.parse
import uuid

import boto3
import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest
import urllib3

from conftest import REGION, ROOT, Server, error_of

READ = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:ListAllMyBuckets"], "Resource": "*"}]})
NOTHING = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Deny", "Action": "*", "Resource": "*"}]})
VERSIONS = {"iam": "2010-05-08", "sts": "2011-06-15"}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("iam") / "data")
    yield server
    assert server.stop() == 0, server.log


def client(store, service, key=None, secret=None):
    return boto3.session.Session().client(
        service, endpoint_url=store.endpoint, region_name=REGION,
        aws_access_key_id=key or store.access, aws_secret_access_key=secret or store.secret)


@pytest.fixture
def iam(store):
    return client(store, "iam")


@pytest.fixture
def name():
    return f"e2e-{uuid.uuid4().hex[:12]}"


def code_of(call, **arguments):
    """Returns the code and the status of the error with which a call fails."""
    with pytest.raises(botocore.exceptions.ClientError) as info:
        call(**arguments)
    return error_of(info)


def actions():
    """Returns the names of all actions, from the table in docs/iam.md, which a Go test compares with that of the server."""
    section = (ROOT / "docs" / "iam.md").read_text().split("## Actions\n")[1].split("\n## ")[0]
    return [a for row in re.findall(r"^\| ([A-Z][A-Za-z, ]*) \|", section, re.M) for a in row.split(", ")]


def test_aws_cli(store, name):
    def aws(*arguments, check=True, **environ):
        done = store.aws(*arguments, check=check, environ=environ)
        return json.loads(done.stdout) if done.stdout.startswith("{") else done

    root = aws("sts", "get-caller-identity")
    assert re.fullmatch(r"[0-9]{12}", root["Account"]) and root["Arn"] == f"arn:aws:iam::{root['Account']}:root"
    user = aws("iam", "create-user", "--user-name", name, "--tags", "Key=team,Value=red")["User"]
    assert user["Arn"] == f"arn:aws:iam::{root['Account']}:user/{name}" and user["Tags"] == [{"Key": "team", "Value": "red"}]
    key = aws("iam", "create-access-key", "--user-name", name)["AccessKey"]
    mine = {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}
    assert aws("sts", "get-caller-identity", **mine)["UserId"] == user["UserId"]
    refused = aws("iam", "list-users", check=False, **mine)
    assert refused.returncode != 0 and f"{user['Arn']} is not authorized to perform: iam:ListUsers" in refused.stderr
    assert "AccessDenied" in store.aws("s3", "ls", check=False, environ=mine).stderr

    aws("iam", "attach-user-policy", "--user-name", name, "--policy-arn", "arn:aws:iam::aws:policy/readonly")
    store.aws("s3", "ls", environ=mine)
    aws("iam", "put-user-policy", "--user-name", name, "--policy-name", "inline", "--policy-document", NOTHING)
    assert "AccessDenied" in store.aws("s3", "ls", check=False, environ=mine).stderr
    assert aws("iam", "get-user-policy", "--user-name", name, "--policy-name", "inline")["PolicyDocument"] == json.loads(NOTHING)
    aws("iam", "delete-user-policy", "--user-name", name, "--policy-name", "inline")
    store.aws("s3", "ls", environ=mine)

    renamed = name + "-renamed"
    aws("iam", "update-user", "--user-name", name, "--new-user-name", renamed)
    assert "NoSuchEntity" in aws("iam", "get-user", "--user-name", name, check=False).stderr
    assert aws("sts", "get-caller-identity", **mine) == {
        "UserId": user["UserId"], "Account": root["Account"], "Arn": user["Arn"].replace(name, renamed)}
    store.aws("s3", "ls", environ=mine)
    aws("iam", "create-user", "--user-name", name)
    assert "EntityAlreadyExists" in aws("iam", "update-user", "--user-name", renamed, "--new-user-name", name, check=False).stderr
    assert aws("iam", "list-access-keys", "--user-name", name)["AccessKeyMetadata"] == []
    aws("iam", "delete-user", "--user-name", name)
    aws("iam", "update-user", "--user-name", renamed, "--new-user-name", name)

    document = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]})
    policy = ["--policy-arn", aws("iam", "create-policy", "--policy-name", name, "--policy-document", document)["Policy"]["Arn"]]
    aws("iam", "create-policy-version", *policy, "--policy-document", NOTHING, "--set-as-default")
    aws("iam", "set-default-policy-version", *policy, "--version-id", "v1")
    assert aws("iam", "get-policy-version", *policy, "--version-id", "v2")["PolicyVersion"]["IsDefaultVersion"] is False
    assert [v["VersionId"] for v in aws("iam", "list-policy-versions", *policy)["Versions"]] == ["v1", "v2"]
    assert "DeleteConflict" in aws("iam", "delete-policy", *policy, check=False).stderr
    aws("iam", "delete-policy-version", *policy, "--version-id", "v2")
    aws("iam", "delete-policy", *policy)

    conflict = aws("iam", "delete-user", "--user-name", name, check=False)
    assert "DeleteConflict" in conflict.stderr and "must delete access keys first" in conflict.stderr
    aws("iam", "delete-access-key", "--user-name", name, "--access-key-id", key["AccessKeyId"])
    aws("iam", "detach-user-policy", "--user-name", name, "--policy-arn", "arn:aws:iam::aws:policy/readonly")
    aws("iam", "delete-user", "--user-name", name)
    assert "InvalidClientTokenId" in aws("sts", "get-caller-identity", check=False, **mine).stderr
    assert "NoSuchEntity" in aws("iam", "get-user", "--user-name", name, check=False).stderr


def test_terraform_user(store, iam, name):
    """aws_iam_user (with force_destroy), aws_iam_access_key, aws_iam_user_policy."""
    # Create and read, twice: the second time is the next plan.
    iam.create_user(UserName=name, Path="/", Tags=[{"Key": "Owner", "Value": "terraform"}])
    key = iam.create_access_key(UserName=name)["AccessKey"]
    iam.put_user_policy(UserName=name, PolicyName="policy", PolicyDocument=READ)
    for _ in range(2):
        user = iam.get_user(UserName=name)["User"]
        assert (user["UserName"], user["Path"], user["Tags"]) == (name, "/", [{"Key": "Owner", "Value": "terraform"}])
        assert "PermissionsBoundary" not in user
        found = iam.list_access_keys(UserName=name)["AccessKeyMetadata"]
        assert [(k["AccessKeyId"], k["Status"]) for k in found] == [(key["AccessKeyId"], "Active")]
        assert iam.get_access_key_last_used(AccessKeyId=key["AccessKeyId"])["UserName"] == name
        policy = iam.get_user_policy(UserName=name, PolicyName="policy")
        assert policy["PolicyDocument"] == json.loads(READ)
    buckets = client(store, "s3", key["AccessKeyId"], key["SecretAccessKey"])
    buckets.list_buckets()
    assert "LastUsedDate" in iam.get_access_key_last_used(AccessKeyId=key["AccessKeyId"])["AccessKeyLastUsed"]

    # Changes in place.
    iam.tag_user(UserName=name, Tags=[{"Key": "Owner", "Value": "people"}])
    iam.untag_user(UserName=name, TagKeys=["Other"])
    iam.update_user(UserName=name, NewUserName=name + "-2", NewPath="/")
    assert code_of(iam.get_user, UserName=name) == ("NoSuchEntity", 404)
    moved = iam.get_user(UserName=name + "-2")["User"]
    assert (moved["UserId"], moved["Arn"]) == (user["UserId"], user["Arn"] + "-2")
    buckets.list_buckets()
    assert code_of(iam.update_user, UserName=name + "-2", NewPath="/team/") == ("ValidationError", 400)
    iam.update_user(UserName=name + "-2", NewUserName=name, NewPath="/")
    assert iam.list_user_tags(UserName=name)["Tags"] == [{"Key": "Owner", "Value": "people"}]
    iam.put_user_policy(UserName=name, PolicyName="policy", PolicyDocument=NOTHING)
    assert code_of(buckets.list_buckets) == ("AccessDenied", 403)
    iam.update_access_key(UserName=name, AccessKeyId=key["AccessKeyId"], Status="Inactive")
    assert code_of(buckets.list_buckets)[1] == 403

    # Destroy.
    iam.delete_user_policy(UserName=name, PolicyName="policy")
    assert code_of(iam.get_user_policy, UserName=name, PolicyName="policy") == ("NoSuchEntity", 404)
    for group in iam.list_groups_for_user(UserName=name)["Groups"]:
        iam.remove_user_from_group(UserName=name, GroupName=group["GroupName"])
    for page in iam.get_paginator("list_access_keys").paginate(UserName=name):
        for k in page["AccessKeyMetadata"]:
            iam.delete_access_key(UserName=name, AccessKeyId=k["AccessKeyId"])
    assert iam.list_ssh_public_keys(UserName=name)["SSHPublicKeys"] == []
    assert iam.list_virtual_mfa_devices(AssignmentStatus="Any")["VirtualMFADevices"] == []
    assert iam.list_mfa_devices(UserName=name)["MFADevices"] == []
    assert code_of(iam.get_login_profile, UserName=name) == ("NoSuchEntity", 404)
    assert code_of(iam.delete_login_profile, UserName=name) == ("NoSuchEntity", 404)
    assert iam.list_signing_certificates(UserName=name)["Certificates"] == []
    assert iam.list_service_specific_credentials(UserName=name)["ServiceSpecificCredentials"] == []
    assert iam.list_attached_user_policies(UserName=name)["AttachedPolicies"] == []
    assert iam.list_user_policies(UserName=name)["PolicyNames"] == []
    iam.delete_user(UserName=name)
    assert code_of(iam.get_user, UserName=name) == ("NoSuchEntity", 404)


def test_terraform_policy(iam, name):
    """aws_iam_policy, and aws_iam_user_policy_attachment."""
    iam.create_user(UserName=name)
    arn = iam.create_policy(PolicyName=name, Path="/", Description="of a test", PolicyDocument=READ, Tags=[{"Key": "a", "Value": "b"}])["Policy"]["Arn"]
    iam.attach_user_policy(UserName=name, PolicyArn=arn)

    def read():
        policy = iam.get_policy(PolicyArn=arn)["Policy"]
        assert (policy["PolicyName"], policy["Path"], policy["Description"]) == (name, "/", "of a test")
        assert policy["Tags"] == [{"Key": "a", "Value": "b"}]
        return iam.get_policy_version(PolicyArn=arn, VersionId=policy["DefaultVersionId"])["PolicyVersion"]["Document"]

    assert read() == json.loads(READ)
    attached = [p for page in iam.get_paginator("list_attached_user_policies").paginate(UserName=name) for p in page["AttachedPolicies"]]
    assert attached == [{"PolicyName": name, "PolicyArn": arn}]
    for n in range(2, 8):  # an update: the provider deletes the oldest version before it creates a sixth
        versions = iam.list_policy_versions(PolicyArn=arn)["Versions"]
        if len(versions) == 5:
            assert code_of(iam.create_policy_version, PolicyArn=arn, PolicyDocument=NOTHING, SetAsDefault=True) == ("LimitExceeded", 409)
            oldest = min((v for v in versions if not v["IsDefaultVersion"]), key=lambda v: v["CreateDate"])
            iam.delete_policy_version(PolicyArn=arn, VersionId=oldest["VersionId"])
        made = iam.create_policy_version(PolicyArn=arn, PolicyDocument=NOTHING, SetAsDefault=True)["PolicyVersion"]
        assert (made["VersionId"], made["IsDefaultVersion"]) == (f"v{n}", True)
        assert iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"] == f"v{n}"
    assert read() == json.loads(NOTHING)
    assert [v["VersionId"] for v in iam.list_policy_versions(PolicyArn=arn)["Versions"]] == ["v3", "v4", "v5", "v6", "v7"]
    iam.set_default_policy_version(PolicyArn=arn, VersionId="v4")
    assert code_of(iam.delete_policy_version, PolicyArn=arn, VersionId="v4") == ("DeleteConflict", 409)

    assert code_of(iam.delete_policy, PolicyArn=arn) == ("DeleteConflict", 409)
    iam.detach_user_policy(UserName=name, PolicyArn=arn)
    assert code_of(iam.detach_user_policy, UserName=name, PolicyArn=arn) == ("NoSuchEntity", 404)
    assert code_of(iam.delete_policy, PolicyArn=arn) == ("DeleteConflict", 409)
    for version in iam.list_policy_versions(PolicyArn=arn)["Versions"]:
        if not version["IsDefaultVersion"]:
            iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])
    iam.delete_policy(PolicyArn=arn)
    assert code_of(iam.get_policy, PolicyArn=arn) == ("NoSuchEntity", 404)
    iam.delete_user(UserName=name)


def test_terraform_group(store, iam, name):
    """aws_iam_group, aws_iam_group_policy, aws_iam_group_policy_attachment, aws_iam_group_membership and
    aws_iam_user_group_membership."""
    users = [f"{name}-{n}" for n in range(3)]
    iam.create_group(GroupName=name, Path="/")
    for user in users:
        iam.create_user(UserName=user)
        iam.add_user_to_group(GroupName=name, UserName=user)
    key = iam.create_access_key(UserName=users[0])["AccessKey"]
    iam.put_group_policy(GroupName=name, PolicyName="inline", PolicyDocument=READ)
    admin = "arn:aws:iam::aws:policy/admin"
    iam.attach_group_policy(GroupName=name, PolicyArn=admin)

    pages = list(iam.get_paginator("get_group").paginate(GroupName=name, PaginationConfig={"PageSize": 2}))
    assert [[u["UserName"] for u in page["Users"]] for page in pages] == [users[:2], users[2:]]
    assert [g["GroupName"] for g in iam.list_groups_for_user(UserName=users[0])["Groups"]] == [name]
    assert iam.get_group_policy(GroupName=name, PolicyName="inline")["PolicyDocument"] == json.loads(READ)
    assert [p["PolicyArn"] for p in iam.list_attached_group_policies(GroupName=name)["AttachedPolicies"]] == [admin]
    assert [g["GroupName"] for g in iam.list_entities_for_policy(PolicyArn=admin)["PolicyGroups"]] == [name]
    member = client(store, "iam", key["AccessKeyId"], key["SecretAccessKey"])
    assert member.get_user()["User"]["UserName"] == users[0]

    iam.update_group(GroupName=name, NewGroupName=name + "-2", NewPath="/")
    assert member.get_user()["User"]["UserName"] == users[0]
    assert [g["GroupName"] for g in iam.list_groups_for_user(UserName=users[0])["Groups"]] == [name + "-2"]
    assert code_of(iam.get_group, GroupName=name) == ("NoSuchEntity", 404)
    iam.update_group(GroupName=name + "-2", NewGroupName=name, NewPath="/")

    iam.detach_group_policy(GroupName=name, PolicyArn=admin)
    assert code_of(member.get_user) == ("AccessDenied", 403)
    iam.delete_group_policy(GroupName=name, PolicyName="inline")
    assert code_of(iam.delete_group, GroupName=name) == ("DeleteConflict", 409)
    iam.delete_access_key(UserName=users[0], AccessKeyId=key["AccessKeyId"])
    for user in users:
        iam.remove_user_from_group(GroupName=name, UserName=user)
        iam.delete_user(UserName=user)
    iam.delete_group(GroupName=name)
    assert code_of(iam.get_group, GroupName=name) == ("NoSuchEntity", 404)


def test_terraform_role(store, iam, name):
    """aws_iam_role (with force_detach_policies), aws_iam_role_policy and aws_iam_role_policy_attachment."""
    user = iam.create_user(UserName=name)["User"]
    key = iam.create_access_key(UserName=name)["AccessKey"]

    def trust(effect):
        return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": effect, "Principal": {"AWS": user["Arn"]}, "Action": "sts:AssumeRole"}]})

    made = iam.create_role(RoleName=name, Path="/", AssumeRolePolicyDocument=trust("Deny"), MaxSessionDuration=3600, Tags=[{"Key": "a", "Value": "b"}])["Role"]
    iam.put_role_policy(RoleName=name, PolicyName="inline", PolicyDocument=READ)
    admin = "arn:aws:iam::aws:policy/readonly"
    iam.attach_role_policy(RoleName=name, PolicyArn=admin)

    def read(effect, **settings):
        role = iam.get_role(RoleName=name)["Role"]
        assert role["AssumeRolePolicyDocument"] == json.loads(trust(effect))
        assert {k: role.get(k) for k in settings} == settings
        assert (role["RoleId"], role["Path"], "PermissionsBoundary" in role) == (made["RoleId"], "/", False)
        names = [p for page in iam.get_paginator("list_role_policies").paginate(RoleName=name) for p in page["PolicyNames"]]
        assert names == ["inline"]
        assert iam.get_role_policy(RoleName=name, PolicyName="inline")["PolicyDocument"] == json.loads(READ)
        attached = [p["PolicyArn"] for page in iam.get_paginator("list_attached_role_policies").paginate(RoleName=name) for p in page["AttachedPolicies"]]
        assert attached == [admin]

    for _ in range(2):
        read("Deny", MaxSessionDuration=3600, Description=None, Tags=[{"Key": "a", "Value": "b"}])
    sts = client(store, "sts", key["AccessKeyId"], key["SecretAccessKey"])
    session = {"RoleArn": made["Arn"], "RoleSessionName": "session"}
    assert code_of(sts.assume_role, **session) == ("AccessDenied", 403)

    # Changes in place.
    iam.update_assume_role_policy(RoleName=name, PolicyDocument=trust("Allow"))
    assert iam.update_role_description(RoleName=name, Description="of a test")["Role"]["Description"] == "of a test"
    iam.update_role(RoleName=name, MaxSessionDuration=7200)
    iam.untag_role(RoleName=name, TagKeys=["a"])
    iam.tag_role(RoleName=name, Tags=[{"Key": "c", "Value": "d"}])
    assert iam.list_role_tags(RoleName=name)["Tags"] == [{"Key": "c", "Value": "d"}]
    read("Allow", MaxSessionDuration=7200, Description="of a test", Tags=[{"Key": "c", "Value": "d"}])
    assert sts.assume_role(**session, DurationSeconds=7200)["AssumedRoleUser"]["AssumedRoleId"] == made["RoleId"] + ":session"

    # Destroy.
    assert iam.list_instance_profiles_for_role(RoleName=name)["InstanceProfiles"] == []
    assert code_of(iam.delete_role, RoleName=name) == ("DeleteConflict", 409)
    iam.detach_role_policy(RoleName=name, PolicyArn=admin)
    iam.delete_role_policy(RoleName=name, PolicyName="inline")
    iam.delete_role(RoleName=name)
    assert code_of(iam.get_role, RoleName=name) == ("NoSuchEntity", 404)
    iam.delete_access_key(UserName=name, AccessKeyId=key["AccessKeyId"])
    iam.delete_user(UserName=name)


def test_identities_survive_a_crash(start, name):
    store = start()
    iam = client(store, "iam")
    iam.create_user(UserName=name, Tags=[{"Key": "a", "Value": "b"}])
    key = iam.create_access_key(UserName=name)["AccessKey"]
    arn = iam.create_policy(PolicyName=name, Description="text", PolicyDocument=READ)["Policy"]["Arn"]
    iam.create_policy_version(PolicyArn=arn, PolicyDocument=READ, SetAsDefault=True)
    iam.attach_user_policy(UserName=name, PolicyArn=arn)
    gone = iam.create_access_key(UserName=name)["AccessKey"]
    iam.delete_access_key(UserName=name, AccessKeyId=gone["AccessKeyId"])
    iam.create_policy_version(PolicyArn=arn, PolicyDocument=NOTHING)
    iam.update_user(UserName=name, NewUserName=name + "-2")
    iam.create_user(UserName=name)
    store.kill()
    store = start(data=store.data)
    iam = client(store, "iam")
    assert iam.get_user(UserName=name + "-2")["User"]["Tags"] == [{"Key": "a", "Value": "b"}]
    assert "Tags" not in iam.get_user(UserName=name)["User"]
    assert [v["VersionId"] for v in iam.list_policy_versions(PolicyArn=arn)["Versions"]] == ["v1", "v2", "v3"]
    policy = iam.get_policy(PolicyArn=arn)["Policy"]
    assert (policy["DefaultVersionId"], policy["Description"], policy["AttachmentCount"]) == ("v2", "text", 1)
    client(store, "s3", key["AccessKeyId"], key["SecretAccessKey"]).list_buckets()
    assert code_of(client(store, "sts", gone["AccessKeyId"], gone["SecretAccessKey"]).get_caller_identity) == ("InvalidClientTokenId", 403)


def test_switched_off(start):
    store = start(env={"ORCAS_IAM_API": "off"})
    assert form(store, "iam", call("ListUsers")) == (400, "AuthorizationHeaderMalformed")
    assert form(store, "sts", call("GetCallerIdentity")) == (400, "AuthorizationHeaderMalformed")
    assert form(store, "s3", call("ListUsers")) == (405, "MethodNotAllowed")
    assert form(store, None, call("ListUsers")) == (403, "AccessDenied")
    client(store, "s3").list_buckets()


def form(store, service, body, key=None, secret=None, when=None, signed_body=None):
    """Sends a form that is signed for a service; not signed if service is None. Returns the status and the code."""
    url = store.endpoint + "/"
    headers = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}
    if service:
        request = botocore.awsrequest.AWSRequest("POST", url, headers=headers, data=body if signed_body is None else signed_body)
        credentials = botocore.credentials.Credentials(key or store.access, secret or store.secret)
        signer = botocore.auth.SigV4Auth(credentials, service, REGION)
        if service == "s3":
            request.headers["X-Amz-Content-SHA256"] = hashlib.sha256(body.encode()).hexdigest()
        request.context["timestamp"] = (when or datetime.datetime.now(datetime.timezone.utc)).strftime("%Y%m%dT%H%M%SZ")
        request.headers["X-Amz-Date"] = request.context["timestamp"]
        canonical = signer.canonical_request(request)
        scope = signer.signature(signer.string_to_sign(request, canonical), request)
        signer._inject_signature_to_request(request, scope)
        headers = dict(request.headers.items())
    response = urllib3.PoolManager().request("POST", url, body=body, headers=headers, retries=False)
    found = re.search(rb"<Code>(\w+)</Code>", response.data)
    return response.status, found and found.group(1).decode()


def call(action, **parameters):
    version = VERSIONS["sts" if action in ("GetCallerIdentity", "AssumeRole") else "iam"]
    return urllib.parse.urlencode({"Action": action, "Version": version} | parameters)


def test_attacks(store):
    whoami = call("GetCallerIdentity")
    now = datetime.datetime.now(datetime.timezone.utc)
    assert form(store, "sts", whoami) == (200, None)
    assert form(store, None, whoami) == (403, "MissingAuthenticationToken")
    assert form(store, "iam", whoami) == (400, "InvalidAction")
    assert form(store, "s3", whoami) == (405, "MethodNotAllowed")
    assert form(store, "ec2", whoami) == (400, "AuthorizationHeaderMalformed")
    assert form(store, "sts", whoami, secret="another secret") == (403, "SignatureDoesNotMatch")
    assert form(store, "sts", whoami, key="AKIAUNKNOWN") == (403, "InvalidClientTokenId")
    for minutes in (-20, 20):
        assert form(store, "sts", whoami, when=now + datetime.timedelta(minutes=minutes)) == (403, "SignatureDoesNotMatch")
    assert form(store, "iam", call("DeleteUser", UserName="b"), signed_body=call("DeleteUser", UserName="a")) == (403, "SignatureDoesNotMatch")
    assert form(store, "sts", whoami, signed_body="") == (403, "SignatureDoesNotMatch")
    assert form(store, "sts", whoami + "&Action=GetCallerIdentity") == (400, "MalformedQueryString")
    assert form(store, "iam", call("GetUser", UserName="a") + "&UserName=b") == (400, "MalformedQueryString")
    assert form(store, "iam", call("CreateUser", UserName="a", PermissionsBoundary="b")) == (400, "ValidationError")
    assert form(store, "iam", call("DoEverything")) == (400, "InvalidAction")
    assert form(store, "sts", whoami + "&x=" + "a" * (128 << 10)) == (413, "RequestEntityTooLarge")


def test_users_of_s3_can_do_nothing_else(store, iam, name):
    """With a key of a user who may do everything in S3, each action of the table is denied, except GetCallerIdentity."""
    iam.create_user(UserName=name)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
    iam.put_user_policy(UserName=name, PolicyName="s3", PolicyDocument=json.dumps(everything))
    policy = iam.create_policy(PolicyName=name, PolicyDocument=READ)["Policy"]["Arn"]
    iam.create_group(GroupName=name)
    mine = {service: client(store, service, key["AccessKeyId"], key["SecretAccessKey"]) for service in ("iam", "sts", "s3")}
    mine["s3"].list_buckets()
    known = {
        "UserName": name, "GroupName": name, "PolicyName": name, "PolicyArn": policy, "PolicyDocument": READ, "AccessKeyId": key["AccessKeyId"],
        "Status": "Inactive", "VersionId": "v1", "RoleName": name, "RoleArn": policy.replace("policy/", "role/"),
        "RoleSessionName": name, "AssumeRolePolicyDocument": READ, "Description": name,
    }
    tried = actions()
    assert len(tried) > 50
    for action in tried:
        service = "sts" if action in mine["sts"].meta.method_to_api_mapping.values() else "iam"
        shape = mine[service].meta.service_model.operation_model(action).input_shape
        arguments = {}
        for parameter in shape.required_members if shape else []:
            of = shape.members[parameter].type_name
            arguments[parameter] = known[parameter] if of == "string" else ["x"] if parameter == "TagKeys" else [{"Key": "x", "Value": "y"}]
        method = {v: k for k, v in mine[service].meta.method_to_api_mapping.items()}[action]
        if action == "GetCallerIdentity":
            assert mine[service].get_caller_identity()["Arn"].endswith(name)
            continue
        assert code_of(getattr(mine[service], method), **arguments) == ("AccessDenied", 403), action
    assert iam.get_policy(PolicyArn=policy)["Policy"]["AttachmentCount"] == 0
    assert iam.list_user_policies(UserName=name)["PolicyNames"] == ["s3"]
    assert [k["Status"] for k in iam.list_access_keys(UserName=name)["AccessKeyMetadata"]] == ["Active"]
    assert form(store, None, call("GetUser")) == (403, "MissingAuthenticationToken")
