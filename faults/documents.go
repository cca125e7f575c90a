package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// The documents of a bucket that the bench changes. Each contains an ID, by which the bench recognizes it.
const (
	policyDocument = "policy"
	corsDocument   = "cors"
)

// policyStatement is a statement that denies something that the bench does not do.
type policyStatement struct {
	Sid, Effect, Principal, Action, Resource string
}

type policyText struct {
	Version   string
	Statement []policyStatement
}

// SetDocument replaces a document of the bucket, or deletes it if id is "".
func (c *Client) SetDocument(ctx context.Context, kind, id string) (err error) {
	switch {
	case kind == policyDocument && id == "":
		_, err = c.s3.DeleteBucketPolicy(ctx, &s3.DeleteBucketPolicyInput{Bucket: &c.bucket})
	case kind == policyDocument:
		p := policyText{"2012-10-17", []policyStatement{{id, "Deny", "*", "s3:GetObject", "arn:aws:s3:::" + c.bucket + "/denied/*"}}}
		text, marshalErr := json.Marshal(p)
		if marshalErr != nil {
			return marshalErr
		}
		_, err = c.s3.PutBucketPolicy(ctx, &s3.PutBucketPolicyInput{Bucket: &c.bucket, Policy: aws.String(string(text))})
	case id == "":
		_, err = c.s3.DeleteBucketCors(ctx, &s3.DeleteBucketCorsInput{Bucket: &c.bucket})
	default:
		_, err = c.s3.PutBucketCors(ctx, &s3.PutBucketCorsInput{Bucket: &c.bucket, CORSConfiguration: &types.CORSConfiguration{
			CORSRules: []types.CORSRule{{ID: &id, AllowedOrigins: []string{"https://example.org"}, AllowedMethods: []string{"GET"}}},
		}})
	}
	return err
}

// Document returns a document of the bucket as a value whose label is the ID, or nil if it does not exist.
func (c *Client) Document(ctx context.Context, kind string) (*Value, error) {
	var id string
	var err error
	if kind == policyDocument {
		id, err = c.policyID(ctx)
	} else {
		id, err = c.corsID(ctx)
	}
	if code, _ := status(err); code == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &Value{Label: id}, nil
}

func (c *Client) policyID(ctx context.Context) (string, error) {
	out, err := c.s3.GetBucketPolicy(ctx, &s3.GetBucketPolicyInput{Bucket: &c.bucket})
	if err != nil {
		return "", err
	}
	var p policyText
	if err := json.Unmarshal([]byte(aws.ToString(out.Policy)), &p); err != nil || len(p.Statement) != 1 {
		return "", fmt.Errorf("the policy is %q: expected one statement (%v)", aws.ToString(out.Policy), err)
	}
	return p.Statement[0].Sid, nil
}

func (c *Client) corsID(ctx context.Context) (string, error) {
	out, err := c.s3.GetBucketCors(ctx, &s3.GetBucketCorsInput{Bucket: &c.bucket})
	if err != nil {
		return "", err
	}
	if len(out.CORSRules) != 1 {
		return "", fmt.Errorf("the CORS configuration has %d rules: expected one", len(out.CORSRules))
	}
	return aws.ToString(out.CORSRules[0].ID), nil
}
