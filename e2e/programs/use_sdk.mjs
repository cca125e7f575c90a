// @aws-sdk/client-s3 with its defaults: checksums, multipart, streams, conditions, versions, presigned URLs.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { Readable } from "node:stream";
import * as s3 from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";

const Bucket = process.argv[2];
const client = new s3.S3Client({ endpoint: process.env.ENDPOINT, region: "us-east-1", forcePathStyle: true, maxAttempts: 1 });
const send = (name, input) => client.send(new s3[name + "Command"]({ Bucket, ...input }));
const get = async (Key, more) => Buffer.from(await (await send("GetObject", { Key, ...more })).Body.transformToByteArray());

await send("CreateBucket");
const large = randomBytes((16 << 20) + 9);
const put = await send("PutObject", { Key: "small", Body: "text", Metadata: { colour: "blue" }, ContentType: "text/x-test" });
assert.ok(put.ChecksumCRC32);
const head = await send("HeadObject", { Key: "small", ChecksumMode: "ENABLED" });
assert.equal(head.Metadata.colour, "blue");
assert.equal(head.ChecksumCRC32, put.ChecksumCRC32);
await new Upload({ client, params: { Bucket, Key: "large", Body: Readable.from([large.subarray(0, 7 << 20), large.subarray(7 << 20)]) }, partSize: 5 << 20 }).done();
assert.ok((await get("large")).equals(large));
assert.ok((await get("large", { Range: "bytes=1000-1999" })).equals(large.subarray(1000, 2000)));
const attributes = await send("GetObjectAttributes", { Key: "large", ObjectAttributes: ["ETag", "Checksum", "ObjectParts", "ObjectSize"] });
assert.equal(attributes.ObjectSize, large.length);
assert.equal(attributes.ObjectParts.TotalPartsCount, 4);
await send("CopyObject", { Key: "copy", CopySource: `${Bucket}/small` });
await assert.rejects(send("PutObject", { Key: "small", Body: "x", IfNoneMatch: "*" }), { name: "PreconditionFailed" });
await assert.rejects(send("GetObject", { Key: "absent" }), { name: "NoSuchKey" });
await assert.rejects(send("HeadObject", { Key: "absent" }), { name: "NotFound" });

const keys = [];
for await (const page of s3.paginateListObjectsV2({ client, pageSize: 1 }, { Bucket })) keys.push(...page.Contents.map((o) => o.Key));
assert.deepEqual(keys, ["copy", "large", "small"]);
const url = await getSignedUrl(client, new s3.GetObjectCommand({ Bucket, Key: "small" }), { expiresIn: 60 });
assert.equal(await (await fetch(url)).text(), "text");
const put2 = await getSignedUrl(client, new s3.PutObjectCommand({ Bucket, Key: "presigned" }), { expiresIn: 60 });
assert.equal((await fetch(put2, { method: "PUT", body: "by a URL" })).status, 200);
assert.equal((await get("presigned")).toString(), "by a URL");

await send("PutBucketVersioning", { VersioningConfiguration: { Status: "Enabled" } });
const { VersionId } = await send("PutObject", { Key: "small", Body: "newer" });
await send("PutObjectTagging", { Key: "small", VersionId, Tagging: { TagSet: [{ Key: "a", Value: "b" }] } });
assert.deepEqual((await send("GetObjectTagging", { Key: "small" })).TagSet, [{ Key: "a", Value: "b" }]);
assert.ok((await send("DeleteObject", { Key: "small" })).DeleteMarker);
assert.equal((await get("small", { VersionId })).toString(), "newer");
const all = await send("ListObjectVersions", {});
const Objects = [...all.Versions, ...all.DeleteMarkers].map(({ Key, VersionId }) => ({ Key, VersionId }));
assert.equal(Objects.length, 6);
assert.equal((await send("DeleteObjects", { Delete: { Objects } })).Deleted.length, 6);
await send("DeleteBucket", {});
