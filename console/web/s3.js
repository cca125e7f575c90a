// S3 through the mount of the admin listener, with the session instead of a signature.

import { headers, sessionEnded } from "./api.js";

const MOUNT = "../-/s3/";

/** An error response of S3. */
class S3Error extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Encodes a part of a path. Browsers would remove a "." or ".." that stands alone, even if it is encoded. */
function encodeKey(key) {
  return key.split("/").map(encodeURIComponent).join("/");
}

/** Returns the relative URL of a bucket, or of a key in it. Values of query that are undefined are left out. */
export function s3url(bucket, key, query = {}) {
  const parameters = [];
  const dots = key && key.split("/").some((part) => part === "." || part === "..");
  if (dots) parameters.push(`x-orcas-key=${encodeURIComponent(key)}`);
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === null) continue;
    parameters.push(value === true ? name : `${name}=${encodeURIComponent(value)}`);
  }
  let path = MOUNT;
  if (bucket) path += encodeURIComponent(bucket) + (key && !dots ? `/${encodeKey(key)}` : "");
  return path + (parameters.length ? `?${parameters.join("&")}` : "");
}

/** Returns the error of a response. */
async function errorOf(response) {
  const body = await response.text().catch(() => "");
  if (response.status === 401) sessionEnded();
  return parseError(response.status, body);
}

/** Returns the S3Error in the text of a response. */
export function parseError(status, body) {
  const found = parse(body);
  if (found && found.documentElement.nodeName === "Error") {
    return new S3Error(status, text(found, "Code"), text(found, "Message"));
  }
  try {
    return new S3Error(status, "", JSON.parse(body).error);
  } catch {
    return new S3Error(status, "", plain(status));
  }
}

/** Returns what to tell the user about a status without a body. */
function plain(status) {
  if (status === 403) return "You do not have permission for this.";
  if (status === 404) return "It does not exist.";
  return `The server responded with status ${status}.`;
}

/** Sends a request to S3. Throws an S3Error if it fails. */
export async function s3(method, { bucket, key, query, headers: more, body, signal } = {}) {
  let response;
  try {
    response = await fetch(s3url(bucket, key, query), {
      method, headers: headers(more), body, signal, credentials: "same-origin", cache: "no-store",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new S3Error(0, "", "The server cannot be reached. Check that it is running, and the network between you and it.");
  }
  if (!response.ok) throw await errorOf(response);
  return response;
}

/** Returns the XML document in a text, or null. For other texts, the parser would make a page with inline styles. */
function parse(body) {
  if (!body.trimStart().startsWith("<")) return null;
  const document = new DOMParser().parseFromString(body, "application/xml");
  return document.getElementsByTagName("parsererror").length ? null : document;
}

/** Sends a request to S3 and returns the XML document of the response. */
export async function s3xml(method, options) {
  const response = await s3(method, options);
  const document = parse(await response.text());
  if (!document) throw new S3Error(response.status, "", "The response of the server is not valid XML.");
  if (document.documentElement.nodeName === "Error") { // a long request that failed after its response had begun
    throw new S3Error(200, text(document, "Code"), text(document, "Message"));
  }
  return document;
}

/** Like s3xml, but returns null if the configuration does not exist. */
export async function s3configuration(options) {
  try {
    return await s3xml("GET", options);
  } catch (error) {
    if (error.status === 404 && error.code !== "NoSuchBucket" && error.code !== "NoSuchKey") return null;
    throw error;
  }
}

/** Returns the text of the first element with a name below an element, or "". */
export function text(element, name) {
  const found = element.getElementsByTagName(name)[0];
  return found ? found.textContent : "";
}

/** Returns all elements with a name below an element. */
export function all(element, name) {
  return [...element.getElementsByTagName(name)];
}

/** Returns the elements with a name that are children of an element. */
export function children(element, name) {
  return [...element.children].filter((child) => child.nodeName === name);
}

/** Escapes a text for XML. */
export function escapeXML(value) {
  return String(value).replace(/[&<>"'\r\n\t]/g, (c) => `&#${c.charCodeAt(0)};`);
}

/** Returns the buckets that the user may see: {name, created}. */
export async function listBuckets(signal) {
  const document = await s3xml("GET", { signal });
  return all(document, "Bucket").map((b) => ({ name: text(b, "Name"), created: text(b, "CreationDate") }));
}

/** Decodes a key of a listing with encoding-type=url, which can contain characters that XML cannot. */
function decode(value) {
  return decodeURIComponent(value.replace(/\+/g, " "));
}

/** Returns a page of a listing: {objects: [{key, size, modified, etag}], prefixes: [...], next}. */
export async function listObjects({ bucket, prefix, delimiter, token, startAfter, max, signal }) {
  const document = await s3xml("GET", {
    bucket, signal,
    query: {
      "list-type": 2, "encoding-type": "url", prefix: prefix || undefined, delimiter: delimiter || undefined,
      "continuation-token": token || undefined, "start-after": startAfter || undefined, "max-keys": max,
    },
  });
  return {
    objects: all(document, "Contents").map((o) => ({
      key: decode(text(o, "Key")), size: Number(text(o, "Size")), modified: text(o, "LastModified"), etag: text(o, "ETag").replace(/"/g, ""),
    })),
    prefixes: all(document, "CommonPrefixes").map((p) => decode(text(p, "Prefix"))),
    next: text(document, "NextContinuationToken"),
  };
}

/** Returns a page of the versions below a prefix: {versions: [...], prefixes, next: {key, version} or null}. */
export async function listVersions({ bucket, prefix, delimiter, next, max, signal }) {
  const document = await s3xml("GET", {
    bucket, signal,
    query: {
      versions: true, "encoding-type": "url", prefix: prefix || undefined, delimiter: delimiter || undefined, "max-keys": max,
      "key-marker": next ? next.key : undefined, "version-id-marker": next ? next.version : undefined,
    },
  });
  const versions = children(document.documentElement, "Version").concat(children(document.documentElement, "DeleteMarker"));
  return {
    versions: versions.map((v) => ({
      key: decode(text(v, "Key")), version: text(v, "VersionId"), size: Number(text(v, "Size") || 0), modified: text(v, "LastModified"),
      latest: text(v, "IsLatest") === "true", marker: v.nodeName === "DeleteMarker",
    })),
    prefixes: all(document, "CommonPrefixes").map((p) => decode(text(p, "Prefix"))),
    next: text(document, "IsTruncated") === "true"
      ? { key: decode(text(document, "NextKeyMarker")), version: text(document, "NextVersionIdMarker") } : null,
  };
}

/** Deletes up to 1,000 objects or versions: [{key, version}]. Returns the failures: [{key, version, code, message}]. */
export async function deleteObjects(bucket, items, signal) {
  const list = items.map((i) => `<Object><Key>${escapeXML(i.key)}</Key>${i.version ? `<VersionId>${escapeXML(i.version)}</VersionId>` : ""}</Object>`);
  const body = `<Delete><Quiet>true</Quiet>${list.join("")}</Delete>`;
  const more = { "x-amz-checksum-crc32": crc32(body) };
  const document = await s3xml("POST", { bucket, query: { delete: true }, body, headers: more, signal });
  return all(document, "Error").map((e) => ({
    key: text(e, "Key"), version: text(e, "VersionId"), code: text(e, "Code"), message: text(e, "Message"),
  }));
}

/** Returns the CRC-32 of a text in Base64. Browsers have no SHA-256 over plain HTTP. */
export function crc32(value) {
  let sum = 0xffffffff;
  for (const byte of new TextEncoder().encode(value)) {
    sum ^= byte;
    for (let bit = 0; bit < 8; bit++) sum = (sum >>> 1) ^ (sum & 1 ? 0xedb88320 : 0);
  }
  sum = ~sum >>> 0;
  return btoa(String.fromCharCode(sum >>> 24, (sum >>> 16) & 255, (sum >>> 8) & 255, sum & 255));
}

/** Writes a configuration of a bucket, with the checksum that some of them need. */
export function putConfiguration(bucket, subresource, body, more = {}) {
  return s3("PUT", { bucket, query: { [subresource]: true }, body, headers: { "x-amz-checksum-crc32": crc32(body), ...more } });
}
