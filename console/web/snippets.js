// Settings of common clients, ready to paste.

/** Quotes a word for a POSIX shell if it needs quotes. */
function quote(word) {
  return /^[A-Za-z0-9_./:@%+=-]+$/.test(word) ? word : `'${word.replace(/'/g, "'\\''")}'`;
}

/** Quotes a text for languages whose strings are like those of JSON. */
const string = (text) => JSON.stringify(text);

/**
 * Returns the snippets for an access: {endpoint, region, bucket, prefix, access, secret}: [{name, hint, text}].
 * All clients use path style, which works with any endpoint.
 */
export function snippets({ endpoint, region, bucket, prefix = "", access, secret }) {
  const host = endpoint.replace(/^https?:\/\//, "");
  const tls = endpoint.startsWith("https:");
  const key = `${prefix}hello.txt`;
  const env = `export AWS_ACCESS_KEY_ID=${quote(access)}
export AWS_SECRET_ACCESS_KEY=${quote(secret)}
export AWS_DEFAULT_REGION=${quote(region)}`;
  return [
    { name: "aws-cli", text: `${env}
export AWS_ENDPOINT_URL=${quote(endpoint)}

echo "hello" > hello.txt
aws s3 cp hello.txt ${quote(`s3://${bucket}/${key}`)}
aws s3 ls ${quote(`s3://${bucket}/${prefix}`)}
` },
    { name: "boto3", text: `import boto3

s3 = boto3.client(
    "s3",
    endpoint_url=${string(endpoint)},
    region_name=${string(region)},
    aws_access_key_id=${string(access)},
    aws_secret_access_key=${string(secret)},
)
s3.put_object(Bucket=${string(bucket)}, Key=${string(key)}, Body=b"hello")
print(s3.get_object(Bucket=${string(bucket)}, Key=${string(key)})["Body"].read())
` },
    { name: "rclone", hint: "In the file that rclone config file shows", text: `[orcas]
type = s3
provider = Other
endpoint = ${endpoint}
region = ${region}
access_key_id = ${access}
secret_access_key = ${secret}
force_path_style = true
no_check_bucket = true

# rclone copy FILE orcas:${bucket}/${prefix}
` },
    { name: "restic", text: `export AWS_ACCESS_KEY_ID=${quote(access)}
export AWS_SECRET_ACCESS_KEY=${quote(secret)}
export RESTIC_REPOSITORY=${quote(`s3:${endpoint}/${bucket}/${prefix}restic`)}

restic -o s3.bucket-lookup=path -o ${quote(`s3.region=${region}`)} init
` },
    { name: "mc", text: `mc alias set orcas ${quote(endpoint)} ${quote(access)} ${quote(secret)} --api S3v4 --path on
mc ls ${quote(`orcas/${bucket}/${prefix}`)}
` },
    { name: "s3fs", text: `echo ${quote(`${access}:${secret}`)} > ~/.passwd-s3fs
chmod 600 ~/.passwd-s3fs
mkdir -p ~/orcas
s3fs ${quote(prefix ? `${bucket}:/${prefix.replace(/\/$/, "")}` : bucket)} ~/orcas -o ${quote(`url=${endpoint}`)} -o use_path_request_style -o ${quote(`endpoint=${region}`)}
` },
    { name: "Terraform", text: `provider "aws" {
  access_key                  = ${string(access)}
  secret_key                  = ${string(secret)}
  region                      = ${string(region)}
  s3_use_path_style           = true
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_region_validation      = true
  skip_requesting_account_id  = true

  endpoints {
    s3 = ${string(endpoint)}
  }
}

resource "aws_s3_object" "hello" {
  bucket  = ${string(bucket)}
  key     = ${string(key)}
  content = "hello"
}
` },
    { name: "JavaScript", hint: "npm install @aws-sdk/client-s3", text: `import { GetObjectCommand, PutObjectCommand, S3Client } from "@aws-sdk/client-s3";

const s3 = new S3Client({
  endpoint: ${string(endpoint)},
  region: ${string(region)},
  forcePathStyle: true,
  credentials: { accessKeyId: ${string(access)}, secretAccessKey: ${string(secret)} },
});
const object = { Bucket: ${string(bucket)}, Key: ${string(key)} };
await s3.send(new PutObjectCommand({ ...object, Body: "hello" }));
console.log(await (await s3.send(new GetObjectCommand(object))).Body.transformToString());
` },
    { name: "Go", hint: "go get github.com/aws/aws-sdk-go-v2/service/s3", text: `package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

func main() {
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String(${string(endpoint)}),
		Region:       ${string(region)},
		UsePathStyle: true,
		Credentials:  credentials.NewStaticCredentialsProvider(${string(access)}, ${string(secret)}, ""),
	})
	_, err := client.PutObject(context.Background(), &s3.PutObjectInput{
		Bucket: aws.String(${string(bucket)}),
		Key:    aws.String(${string(key)}),
		Body:   strings.NewReader("hello"),
	})
	fmt.Println(err)
}
` },
    { name: "curl", hint: "7.75 or newer", text: `echo "hello" > hello.txt
curl --fail-with-body --user ${quote(`${access}:${secret}`)} --aws-sigv4 ${quote(`aws:amz:${region}:s3`)} \\
  -H "x-amz-content-sha256: UNSIGNED-PAYLOAD" -T hello.txt ${quote(`${endpoint}/${bucket}/${key.split("/").map(encodeURIComponent).join("/")}`)}
` },
  ].map((s) => ({ ...s, tls: tls && host }));
}
