// Package iam serves the Query API of IAM and STS: the calls that aws-cli, the SDKs and Terraform make to manage users,
// access keys, groups and policies, and to find out who they are (GetCallerIdentity).
//
// # Requests
//
// The API shares the listener and the address of S3. A request has the path "/", and its parameters are a form in the
// body, or the query of a presigned URL. Action and Version select the operation:
//
//	POST / HTTP/1.1
//	Content-Type: application/x-www-form-urlencoded
//	Authorization: AWS4-HMAC-SHA256 Credential=AKIA.../20261123/us-east-1/iam/aws4_request, ...
//
//	Action=GetUser&Version=2010-05-08&UserName=alice
//
// Requests are signed for the service iam or sts, which tells them from requests to S3 (Accepts), and for any region,
// because SDKs use different ones for these services. The signature covers the body, so the body is read before the
// sender is known. It is therefore limited in size and time, and so is the number of requests in flight.
//
// # The gate
//
// Every request takes the same path, and there is no other path to a handler:
//
//	authenticate -> parse -> find the action -> check the parameters -> find the target -> authorize -> handle -> observe
//
// Actions are rows of one table (routes.go), which is data: the name, the permission, the parameters, and the target,
// which is the resource of the permission. A request with a parameter that its row does not list is refused, so no part
// of a request is ignored. An action without a row is InvalidAction.
//
// Names of users, groups and policies are unique without regard to case, but patterns in policies distinguish case. So
// the permission is decided about the ARN of the stored target, and handlers use the target that was decided about:
// DeleteUser with the name ALICE is a request about the user alice, whom a statement may protect.
//
// # Administrators
//
// IAM has no lesser administrators. Whoever may create access keys of other users, put policies, attach them, or change
// members of groups can obtain every right in the account. Only permissions on resources that are listed one by one
// limit that.
//
// # Documents
//
// Responses are XML, in the namespace of the service:
//
//	<GetUserResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/">
//	  <GetUserResult>...</GetUserResult>
//	  <ResponseMetadata><RequestId>...</RequestId></ResponseMetadata>
//	</GetUserResponse>
//
//	<ErrorResponse xmlns="https://iam.amazonaws.com/doc/2010-05-08/">
//	  <Error><Type>Sender</Type><Code>NoSuchEntity</Code><Message>...</Message></Error>
//	  <RequestId>...</RequestId>
//	</ErrorResponse>
package iam
