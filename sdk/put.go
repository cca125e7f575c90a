package sdk

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
)

// Put writes an object of up to 5 GiB. body is read from its position to its end: once to compute checksums, unless
// they are in the options, and once for each attempt to send it. nil is an empty body. See Upload for larger objects, for
// readers that cannot seek, and for instant upload.
func (c *Client) Put(ctx context.Context, bucket, key string, body io.ReadSeeker, o *PutOptions) (*Written, error) {
	return c.w.put(ctx, "Put", bucket, key, body, o, nil)
}

// Append appends to an object, which must have the size offset; 0 also creates it. Otherwise the error is
// ErrInvalidOffset. Only ORCAS and directory buckets of AWS can append; other servers replace the object, which the
// error reports afterwards. If a response was lost, a repeated attempt
// fails with ErrInvalidOffset; the error then is Uncertain.
func (c *Client) Append(ctx context.Context, bucket, key string, offset int64, body io.ReadSeeker, o *PutOptions) (*Written, error) {
	if offset < 0 {
		return nil, argument("Append", bucket, key, "the offset is %d, expected 0 or more", offset)
	}
	if body == nil {
		body = bytes.NewReader(nil)
	}
	_, size, err := measure(body)
	if err != nil {
		return nil, (&call{op: "Append", bucket: bucket, key: key}).localError(err)
	}
	w, err := c.w.put(ctx, "Append", bucket, key, body, o, func(h http.Header) {
		set(h, "X-Amz-Write-Offset-Bytes", strconv.FormatInt(offset, 10))
	})
	if err == nil && w.Size != offset+size {
		err = (&call{op: "Append", bucket: bucket, key: key}).localError(failed(ErrProtocol, "the server does not confirm that the object has %d bytes now: "+
			"it has probably replaced the object, because it cannot append", offset+size))
	}
	return w, err
}

// put implements the operations that write a whole body. more adds headers.
func (w *wire) put(ctx context.Context, op, bucket, key string, body io.ReadSeeker, o *PutOptions, more func(http.Header)) (*Written, error) {
	if o == nil {
		o = &PutOptions{}
	}
	q := call{op: op, method: http.MethodPut, bucket: bucket, key: key, write: true, header: make(http.Header, 8)}
	if key == "" {
		return nil, argument(op, bucket, key, "the key is empty")
	}
	if err := o.Properties.write(q.header, w.secure); err != nil {
		return nil, q.localError(err)
	}
	o.Conditions.write(q.header, "If-")
	if more != nil {
		more(q.header)
	}
	if err := w.setContent(&q, body, sums{o.Checksum, o.ChecksumValue, o.SHA256, o.Lock.isSet()}); err != nil {
		return nil, err
	}
	r, err := w.do(ctx, &q)
	if err != nil {
		return nil, err
	}
	out := written(r)
	out.Size = q.body.size
	if v := first(r.header, "X-Amz-Object-Size"); v != "" {
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			out.Size = n
		}
	}
	if more != nil { // the checksum and the ETag are those of more than the body
		return out, nil
	}
	return out, w.verifyWritten(&q, r, out, w.algorithm(o.Checksum))
}

// algorithm returns the algorithm that content is sent with; None is none.
func (w *wire) algorithm(a Algorithm) Algorithm {
	if a != None || w.config.ChecksumsWhenRequired {
		return a
	}
	return w.config.Checksum
}

// Delete deletes an object: it writes a delete marker if the bucket has versioning, and otherwise deletes it for good,
// as it does with a version. An object that does not exist is not an error.
func (c *Client) Delete(ctx context.Context, bucket, key string, o *DeleteOptions) (*Deleted, error) {
	if o == nil {
		o = &DeleteOptions{}
	}
	if key == "" {
		return nil, argument("Delete", bucket, key, "the key is empty")
	}
	q := call{op: "Delete", method: http.MethodDelete, bucket: bucket, key: key, write: true, version: o.VersionID != "",
		header: make(http.Header, 8), query: new(query).set("versionId", o.VersionID).String()}
	set(q.header, "If-Match", quote(o.IfMatch))
	if o.BypassGovernance {
		set(q.header, "X-Amz-Bypass-Governance-Retention", "true")
	}
	r, err := c.w.do(ctx, &q)
	if err != nil {
		return nil, err
	}
	d := &Deleted{ObjectID: ObjectID{key, o.VersionID}, Marker: first(r.header, "X-Amz-Delete-Marker") == "true"}
	if d.Marker {
		d.MarkerID = first(r.header, "X-Amz-Version-Id")
	}
	return d, nil
}

// Head describes an object, without its content.
func (c *Client) Head(ctx context.Context, bucket, key string, o *GetOptions) (*Info, error) {
	q, err := c.w.reading("Head", http.MethodHead, bucket, key, o)
	if err != nil {
		return nil, err
	}
	q.stream = true // the length that is announced is not that of a document
	r, err := c.w.do(ctx, q)
	if err != nil {
		return nil, err
	}
	if err := r.stream.Close(); err != nil || r.length < 0 {
		return nil, q.localError(failed(ErrProtocol, "the response does not have a Content-Length"))
	}
	info := infoOf(key, r.header, r.length)
	if total, ok := totalOf(r.header); ok {
		info.Size = total
	}
	return &info, nil
}
