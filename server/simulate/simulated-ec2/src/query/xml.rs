//! XML of responses and errors.

use crate::api_error::ApiError;
use crate::value::{Fields, Node};

/// How a service writes responses and errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// EC2: list items are `item`, and the response has the fields.
    Ec2,
    /// IAM and STS: list items are `member`, and the fields are in a result element.
    Query(&'static str),
}

const EC2: &str = "http://ec2.amazonaws.com/doc/2016-11-15/";

/// The body of a successful call.
pub(crate) fn response(dialect: Dialect, action: &str, request_id: &str, fields: &Fields) -> String {
    let mut body = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    match dialect {
        Dialect::Ec2 => {
            body.push_str(&format!("<{action}Response xmlns=\"{EC2}\"><requestId>{request_id}</requestId>"));
            write_fields(&mut body, fields, "item");
        }
        Dialect::Query(namespace) => {
            body.push_str(&format!("<{action}Response xmlns=\"{namespace}\"><{action}Result>"));
            write_fields(&mut body, fields, "member");
            let metadata = format!("<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>");
            body.push_str(&format!("</{action}Result>{metadata}"));
        }
    }
    body.push_str(&format!("</{action}Response>"));
    body
}

/// The body of a failed call.
pub(crate) fn error(dialect: Dialect, request_id: &str, error: &ApiError) -> String {
    let described = Fields::new().with("Code", &error.code).with("Message", &error.message);
    let mut body = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    match dialect {
        Dialect::Ec2 => {
            let errors = Fields::new().with("Errors", Fields::new().with("Error", described));
            write_element(&mut body, "Response", &errors.with("RequestID", request_id).into(), "item");
        }
        Dialect::Query(_) => {
            let sender = if error.status < 500 { "Sender" } else { "Receiver" };
            let error = Fields::new().with("Error", described.with("Type", sender));
            write_element(&mut body, "ErrorResponse", &error.with("RequestId", request_id).into(), "member");
        }
    }
    body
}

fn write_fields(body: &mut String, fields: &Fields, item: &str) {
    for (name, node) in fields.entries() {
        write_element(body, name, node, item);
    }
}

fn write_element(body: &mut String, name: &str, node: &Node, item: &str) {
    body.push('<');
    body.push_str(name);
    body.push('>');
    match node {
        Node::Text(text) => escape(body, text),
        Node::List(nodes) => nodes.iter().for_each(|node| write_element(body, item, node, item)),
        Node::Fields(fields) => write_fields(body, fields, item),
    }
    body.push_str("</");
    body.push_str(name);
    body.push('>');
}

fn escape(body: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => body.push_str("&amp;"),
            '<' => body.push_str("&lt;"),
            '>' => body.push_str("&gt;"),
            '"' => body.push_str("&quot;"),
            '\r' => body.push_str("&#13;"),
            other => body.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_the_element_names_of_the_service_and_text_is_escaped() {
        let fields = Fields::new().list("names", ["a&b", "<c>"]).with("empty", "");
        let ec2 = response(Dialect::Ec2, "Describe", "r-1", &fields);
        let expected = "<DescribeResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><requestId>r-1</requestId>\
                        <names><item>a&amp;b</item><item>&lt;c&gt;</item></names><empty></empty></DescribeResponse>";
        assert_eq!(ec2.lines().nth(1), Some(expected));
        let iam = response(Dialect::Query("urn:iam"), "List", "r-2", &Fields::new().list("Names", ["a"]));
        let expected = "<ListResponse xmlns=\"urn:iam\"><ListResult><Names><member>a</member></Names></ListResult>\
                        <ResponseMetadata><RequestId>r-2</RequestId></ResponseMetadata></ListResponse>";
        assert_eq!(iam.lines().nth(1), Some(expected));
    }

    #[test]
    fn errors_have_the_shape_of_the_service() {
        let refused = ApiError::new("AccessDenied", "no");
        let ec2 = error(Dialect::Ec2, "r-1", &refused);
        let expected = "<Response><Errors><Error><Code>AccessDenied</Code><Message>no</Message></Error></Errors>\
                        <RequestID>r-1</RequestID></Response>";
        assert_eq!(ec2.lines().nth(1), Some(expected));
        let iam = error(Dialect::Query("urn:iam"), "r-1", &refused);
        assert!(iam.contains("<ErrorResponse><Error><Code>AccessDenied</Code>"), "{iam}");
        assert!(iam.contains("<Type>Sender</Type>"), "{iam}");
    }
}
