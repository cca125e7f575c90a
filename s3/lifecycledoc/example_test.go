package lifecycledoc_test

import (
	"fmt"

	"orcas/s3/lifecycledoc"
	"orcas/s3/xmldoc"
)

func Example() {
	c, err := lifecycledoc.Parse([]byte(`<LifecycleConfiguration><Rule><ID>old</ID><Filter><Prefix>log/</Prefix></Filter>
		<Status>Enabled</Status><Expiration><Days>30</Days></Expiration></Rule></LifecycleConfiguration>`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Rules[0].ID, *c.Rules[0].Filter.Prefix, c.Rules[0].Expiration.Days)
	var x xmldoc.Writer
	lifecycledoc.Write(&x, c)
	_, err = lifecycledoc.Parse(x.Buf)
	fmt.Println(err)
	// Output:
	// old log/ 30
	// <nil>
}
