// Runs in the page. It uses the server as its task says, and reports the results to the server of the page.
import { DeleteObjectCommand, GetObjectCommand, ListObjectsV2Command, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";

const task = await (await fetch("/task")).json();
const client = new S3Client({ endpoint: task.endpoint, region: "us-east-1", forcePathStyle: true, maxAttempts: 1, credentials: task.credentials });
const bytes = (size, seed) => Uint8Array.from({ length: size }, (_, i) => (i * 31 + (i >> 8) * 7 + seed) % 251);
const photo = (size = 70_000) => new File([bytes(size, 1)], "photo 1.png", { type: "image/png" });
const codeIn = (text) => /<Code>(\w+)<\/Code>/.exec(text)?.[1];

// A page that may not read a response gets a TypeError.
const failure = (promise) => promise.then(() => "no error", (e) => e.name);

function fields(post, file) {
  const data = new FormData();
  for (const [name, value] of Object.entries(post.fields)) data.append(name, value);
  data.append("file", file);
  return data;
}

// submit sends a form as a browser does, without fetch: in a frame, which then has the page that the server redirects to.
async function submit(post, file) {
  const frame = document.createElement("iframe");
  frame.name = "target";
  const form = document.createElement("form");
  Object.assign(form, { action: post.url, method: "post", enctype: "multipart/form-data", target: "target" });
  for (const [name, value] of Object.entries(post.fields)) {
    form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
  }
  const input = Object.assign(document.createElement("input"), { type: "file", name: "file" });
  const files = new DataTransfer();
  files.items.add(file);
  input.files = files.files;
  form.append(input);
  document.body.append(frame, form);
  const loaded = new Promise((resolve) => frame.addEventListener("load", () => {
    try {
      if (frame.contentWindow.location.pathname === "/done") resolve(new URL(frame.contentWindow.location.href));
    } catch (e) {
      resolve(e); // it shows a response of the server instead
    }
  }));
  form.submit();
  const at = await loaded;
  if (at instanceof Error) throw at;
  const query = at.searchParams;
  return { bucket: query.get("bucket"), key: query.get("key"), etag: /^"\w{32}"$/.test(query.get("etag")) };
}

const send = (command, input) => client.send(new command({ Bucket: task.bucket, ...input }));

const allowed = {
  "fetch": async () => {
    const r = await fetch(task.get);
    return { status: r.status, text: await r.text(), type: r.headers.get("Content-Type"), etag: r.headers.get("ETag"), hidden: r.headers.get("x-amz-id-2") };
  },
  "error of fetch": async () => {
    const r = await fetch(task.absent);
    return { status: r.status, code: codeIn(await r.text()) };
  },
  "method without a rule": () => failure(fetch(task.remove, { method: "DELETE" })),
  "bucket without a configuration": () => failure(fetch(task.getClosed)),
  "client: put": async () => (await send(PutObjectCommand, { Key: "client/text", Body: "hello" })).ETag,
  "client: get": async () => (await send(GetObjectCommand, { Key: "client/text" })).Body.transformToString(),
  "client: file": async () => { // the client cannot compute the checksum of a File
    const Body = new Uint8Array(await photo().arrayBuffer());
    return Boolean((await send(PutObjectCommand, { Key: "client/file", Body, ContentType: "image/png" })).ETag);
  },
  "client: upload in parts": async () => {
    const params = { Bucket: task.bucket, Key: "client/large", Body: new Blob([bytes((11 << 20) + 3, 2)]) };
    return (await new Upload({ client, params, partSize: 5 << 20 }).done()).ETag.endsWith('-3"');
  },
  "client: range": async () => (await send(GetObjectCommand, { Key: "greeting", Range: "bytes=1-3" })).Body.transformToString(),
  "client: list": async () => (await send(ListObjectsV2Command, { Prefix: "client/" })).Contents.map((o) => o.Key),
  "client: error": () => failure(send(GetObjectCommand, { Key: "absent" })),
  "client: method without a rule": () => failure(send(DeleteObjectCommand, { Key: "greeting" })),
  "presigned put": async () => (await fetch(task.put, { method: "PUT", body: photo() })).status,
  "presigned put with another type": async () => (await fetch(task.put, { method: "PUT", body: "text" })).status,
  "form": async () => {
    const r = await fetch(task.post.url, { method: "POST", body: fields(task.post, photo()) });
    return { status: r.status, etag: /^"\w{32}"$/.test(r.headers.get("ETag")) };
  },
  "form with a large file": async () => {
    const r = await fetch(task.post.url, { method: "POST", body: fields(task.post, photo(100_001)) });
    return { status: r.status, code: codeIn(await r.text()) };
  },
  "form with a redirect": () => submit(task.redirecting, photo()),
};

const refused = {
  "fetch": () => failure(fetch(task.get)),
  "presigned put": () => failure(fetch(task.put, { method: "PUT", body: "x" })),
  "client: list": () => failure(send(ListObjectsV2Command, {})),
};

const results = {};
for (const [name, step] of Object.entries(task.refused ? refused : allowed)) {
  results[name] = await step().catch((e) => `unexpected ${e.name}: ${e.message}`);
}
await fetch("/report", { method: "POST", body: JSON.stringify(results) });
if (task.other) location = task.other; // the page of an origin that may not use the bucket
