// Pages in Chromium use the server from other origins: with fetch, with @aws-sdk/client-s3, with presigned URLs, and with
// HTML forms. The pages run browser_page.mjs; this script serves them, and checks what arrived in the store.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import * as s3 from "@aws-sdk/client-s3";
import { createPresignedPost } from "@aws-sdk/s3-presigned-post";
import { getSignedUrl } from "@aws-sdk/s3-request-presigner";
import { build } from "esbuild";

const Bucket = process.argv[2];
const closed = Bucket + "-closed"; // without a CORS configuration
const endpoint = process.env.ENDPOINT;
const client = new s3.S3Client({ endpoint, region: "us-east-1", forcePathStyle: true, maxAttempts: 1 });
const send = (name, input) => client.send(new s3[name + "Command"]({ Bucket, ...input }));
const read = async (Key) => Buffer.from(await (await send("GetObject", { Key })).Body.transformToByteArray());
const url = (name, input) => getSignedUrl(client, new s3[name + "Command"]({ Bucket, ...input }), { expiresIn: 300, signableHeaders: new Set(["content-type"]) });
const bytes = (size, seed) => Buffer.from(Uint8Array.from({ length: size }, (_, i) => (i * 31 + (i >> 8) * 7 + seed) % 251)); // as in the page

const bundle = await build({
  entryPoints: ["browser_page.mjs"], absWorkingDir: import.meta.dirname ?? path.dirname(process.argv[1]),
  bundle: true, format: "esm", platform: "browser", write: false,
});
const script = bundle.outputFiles[0].contents;

// serve starts the server of an origin. The task is what its page gets; the promise has what the page reports.
async function serve(name, task) {
  let report;
  const reported = new Promise((resolve) => (report = resolve));
  const server = createServer(async (request, response) => {
    const send = (type, body) => response.writeHead(200, { "Content-Type": type }).end(body);
    switch (new URL(request.url, "http://localhost").pathname) {
      case "/": return send("text/html", `<!doctype html><title>${name}</title><script type="module" src="/page.js"></script>`);
      case "/page.js": return send("text/javascript", script);
      case "/task": return send("application/json", JSON.stringify(await task()));
      case "/done": return send("text/html", "<!doctype html><title>done</title>"); // where a form redirects to
      case "/report": {
        let body = "";
        for await (const part of request) body += part;
        send("text/plain", "");
        return report(JSON.parse(body));
      }
    }
    response.writeHead(404).end();
  });
  await new Promise((resolve) => server.listen(0, "localhost", resolve));
  return { origin: `http://localhost:${server.address().port}`, reported, close: () => server.close().closeAllConnections() };
}

const common = async () => ({
  endpoint, bucket: Bucket, closed,
  credentials: { accessKeyId: process.env.AWS_ACCESS_KEY_ID, secretAccessKey: process.env.AWS_SECRET_ACCESS_KEY },
  get: await url("GetObject", { Key: "greeting" }),
  getClosed: await url("GetObject", { Bucket: closed, Key: "greeting" }),
});
const allowed = await serve("allowed", async () => ({
  ...(await common()), other: refused.origin,
  absent: await url("GetObject", { Key: "absent" }),
  remove: await url("DeleteObject", { Key: "greeting" }),
  put: await url("PutObject", { Key: "presigned", ContentType: "image/png" }),
  post: await form("form/${filename}"),
  redirecting: await form("redirected", { success_action_redirect: allowed.origin + "/done" }),
}));
const refused = await serve("refused", async () => ({ ...(await common()), refused: true, put: await url("PutObject", { Key: "stolen" }) }));

const form = (Key, Fields = {}) => createPresignedPost(client, {
  Bucket, Key, Fields: { "Content-Type": "image/png", ...Fields }, Expires: 300,
  Conditions: [["content-length-range", 1, 100_000], ...Object.entries(Fields).map(([k, v]) => ({ [k]: v }))],
});

for (const bucket of [Bucket, closed]) {
  await send("CreateBucket", { Bucket: bucket });
  await send("PutObject", { Bucket: bucket, Key: "greeting", Body: "hello", ContentType: "text/plain" });
}
await send("PutBucketCors", { CORSConfiguration: { CORSRules: [{
  AllowedOrigins: [allowed.origin], AllowedMethods: ["GET", "PUT", "POST", "HEAD"], AllowedHeaders: ["*"],
  ExposeHeaders: ["ETag", "x-amz-checksum-crc32"], MaxAgeSeconds: 60,
}] } });

const home = mkdtempSync(path.join(tmpdir(), "chromium-"));
const browser = spawn("chromium", [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--remote-debugging-port=0", "--ignore-certificate-errors", "--user-data-dir=" + home, allowed.origin + "/",
], { stdio: ["ignore", "ignore", "pipe"], detached: true });
let log = "";
browser.stderr.on("data", (text) => (log += text));
const ended = new Promise((_, reject) => {
  browser.on("error", reject);
  browser.on("exit", (code, signal) => reject(new Error(`chromium ended with ${code ?? signal}:\n${log}`)));
});
ended.catch(() => {});

try {
  const first = await Promise.race([allowed.reported, ended]);
  const second = await Promise.race([refused.reported, ended]);

  assert.deepEqual(first, {
    "fetch": { status: 200, text: "hello", type: "text/plain", etag: '"5d41402abc4b2a76b9719d911017c592"', hidden: null },
    "error of fetch": { status: 404, code: "NoSuchKey" },
    "method without a rule": "TypeError",
    "bucket without a configuration": "TypeError",
    "client: put": '"5d41402abc4b2a76b9719d911017c592"',
    "client: get": "hello",
    "client: file": true,
    "client: upload in parts": true,
    "client: range": "ell",
    "client: list": ["client/file", "client/large", "client/text"],
    "client: error": "NoSuchKey",
    "client: method without a rule": "TypeError",
    "presigned put": 200,
    "presigned put with another type": 403,
    "form": { status: 204, etag: true },
    "form with a large file": { status: 400, code: "EntityTooLarge" },
    "form with a redirect": { bucket: Bucket, key: "redirected", etag: true },
  });
  assert.deepEqual(second, { "fetch": "TypeError", "presigned put": "TypeError", "client: list": "TypeError" });

  const list = await send("ListObjectsV2", {});
  assert.deepEqual(list.Contents.map((o) => o.Key), [
    "client/file", "client/large", "client/text", "form/photo 1.png", "greeting", "presigned", "redirected",
  ]);
  for (const Key of ["client/file", "form/photo 1.png", "presigned", "redirected"]) {
    assert.ok((await read(Key)).equals(bytes(70_000, 1)), Key);
    assert.equal((await send("HeadObject", { Key })).ContentType, "image/png", Key);
  }
  assert.ok((await read("client/large")).equals(bytes((11 << 20) + 3, 2)));
} finally {
  try { process.kill(-browser.pid, "SIGKILL"); } catch { /* it has ended */ }
  allowed.close();
  refused.close();
  client.destroy();
  await new Promise((resolve) => setTimeout(resolve, 100)); // until its children have released the directory
  rmSync(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
}
