package xmldoc_test

import (
	"encoding/xml"
	"fmt"

	"orcas/s3/xmldoc"
)

func ExampleWriter() {
	var x xmldoc.Writer
	x.Begin("ListBucketResult")
	x.Key("Prefix", "a b/", true)
	x.Int("KeyCount", 2)
	x.Optional("Delimiter", "")
	x.Close("ListBucketResult")
	fmt.Println(string(x.Buf))
	// Output:
	// <?xml version="1.0" encoding="UTF-8"?>
	// <ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Prefix>a%20b/</Prefix><KeyCount>2</KeyCount></ListBucketResult>
}

func ExampleParse() {
	var body struct {
		XMLName xml.Name `xml:"VersioningConfiguration"`
		Status  *string  `xml:"Status"`
	}
	err := xmldoc.Parse([]byte("<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"), &body)
	fmt.Println(*body.Status, err)
	fmt.Println(xmldoc.Parse([]byte("<VersioningConfiguration><State>Enabled</State></VersioningConfiguration>"), &body))
	// Output:
	// Enabled <nil>
	// s3: MalformedXML: The XML you provided was not well-formed or did not validate against our published schema.: the document does not conform to its schema
}
