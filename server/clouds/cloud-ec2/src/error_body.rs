//! The code of an HTTP error response, which every protocol of AWS has in another place.

use aws_sdk_ec2::config::http::HttpResponse;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;

/// The response, and the code of its error; `None` for a success and for a body without a code. The body of an error is
/// small.
pub(crate) async fn with_code(mut response: HttpResponse) -> Result<(HttpResponse, Option<String>), ConnectorError> {
    if response.status().as_u16() < 400 {
        return Ok((response, None));
    }
    let body = ByteStream::new(response.take_body()).collect().await;
    let body = body.map_err(|error| ConnectorError::io(error.into()))?.into_bytes();
    let header = response.headers().get("x-amzn-errortype").map(str::to_owned);
    let code = header.or_else(|| code(&String::from_utf8_lossy(&body)).map(str::to_owned));
    *response.body_mut() = SdkBody::from(body);
    Ok((response, code.map(|code| short(&code).to_owned())))
}

/// The code of an XML body, or of a JSON body.
fn code(body: &str) -> Option<&str> {
    let between = |open: &str, close: &str| Some(body.split_once(open)?.1.split_once(close)?.0);
    between("<Code>", "</Code>").or_else(|| between("\"__type\":\"", "\""))
}

/// A code without its namespace before `#` and its address after `:`.
fn short(code: &str) -> &str {
    let code = code.rsplit('#').next().unwrap_or(code);
    code.split(':').next().unwrap_or(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_smithy_runtime_api::http::StatusCode;

    async fn code_of(status: u16, header: Option<&'static str>, body: &'static str) -> Option<String> {
        let mut response = HttpResponse::new(StatusCode::try_from(status).unwrap(), SdkBody::from(body));
        if let Some(value) = header {
            response.headers_mut().insert("x-amzn-errortype", value);
        }
        let (response, code) = with_code(response).await.unwrap();
        assert_eq!(response.body().bytes(), Some(body.as_bytes()), "the body is still there");
        code
    }

    #[tokio::test]
    async fn the_code_of_an_error_is_read_in_every_protocol() {
        let ec2 = "<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>m</Message></Error></Errors></Response>";
        assert_eq!(code_of(503, None, ec2).await.as_deref(), Some("RequestLimitExceeded"));
        let json = "{\"__type\":\"com.amazonaws.sqs#QueueDoesNotExist\",\"message\":\"m\"}";
        assert_eq!(code_of(400, None, json).await.as_deref(), Some("QueueDoesNotExist"));
        let header = Some("AccessDeniedException:http://internal.amazon.com/coral");
        assert_eq!(code_of(403, header, "{}").await.as_deref(), Some("AccessDeniedException"));
        assert_eq!(code_of(503, None, "<html>503</html>").await, None);
        assert_eq!(code_of(200, None, ec2).await, None);
    }
}
