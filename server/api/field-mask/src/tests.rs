use std::convert::Infallible;
use std::path::Path;

use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use prost::Message;
use prost::bytes::{BufMut, Bytes, BytesMut};
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use serde_json::{Value, json};
use tonic::{Code, Status};
use tower::{Layer, ServiceExt, service_fn};

use crate::{FieldMask, FieldMaskLayer, HEADER};

const PATH: &str = "/shop.v1.Shop/ListOrders";

fn descriptor_set() -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/proto");
    let mut compiler = protox::Compiler::new([folder]).expect("the folder of the test's files");
    compiler.include_imports(true).open_file("shop.proto").expect("a proto file");
    compiler.encode_file_descriptor_set()
}

fn answer() -> MessageDescriptor {
    let pool = DescriptorPool::decode(descriptor_set().as_slice()).expect("descriptors");
    pool.get_message_by_name("shop.v1.ListOrdersResponse").expect("a message")
}

/// Two orders, with a value in every field.
fn orders() -> Value {
    let order = |name: &str| {
        json!({
            "name": name, "priceCents": "1250", "address": {"city": "Bern", "street": "Marktgasse 1"},
            "labels": {"a": "b"}, "createTime": "2026-01-31T08:00:00Z", "sizes": [7, 300], "replaces": {"name": "older"}
        })
    };
    json!({"orders": [order("one"), order("two")], "nextPageToken": "more"})
}

fn encoded(json: Value) -> Vec<u8> {
    DynamicMessage::deserialize(answer(), json).expect("JSON of the message").encode_to_vec()
}

fn decoded(bytes: &[u8]) -> Value {
    let message = DynamicMessage::decode(answer(), bytes).expect("a message");
    serde_json::to_value(&message).expect("JSON")
}

/// What a mask leaves of [`orders`]: the same encoded and as JSON.
fn left_by(mask: &str) -> Value {
    let mask = FieldMask::parse(mask, &answer()).expect("a mask").expect("it removes something");
    let mut json = orders();
    mask.retain_json(&mut json);
    assert_eq!(decoded(&mask.retain_encoded(&encoded(orders())).expect("a message")), json);
    json
}

#[test]
fn the_fields_that_are_named_are_left() {
    assert_eq!(left_by("next_page_token"), json!({"nextPageToken": "more"}));
    assert_eq!(left_by("nextPageToken,orders.name"), left_by(" orders.name , next_page_token,"));
    assert_eq!(
        left_by("nextPageToken,orders.name"),
        json!({"nextPageToken": "more", "orders": [{"name": "one"}, {"name": "two"}]})
    );
    let city = |name: &str| json!({"name": name, "address": {"city": "Bern"}, "sizes": [7, 300]});
    assert_eq!(left_by("orders.address.city,orders.sizes,orders.name"), json!({"orders": [city("one"), city("two")]}));
    let values = json!({"labels": {"a": "b"}, "createTime": "2026-01-31T08:00:00Z"});
    assert_eq!(left_by("orders.labels,orders.create_time"), json!({"orders": [values.clone(), values]}));
}

#[test]
fn a_field_that_is_named_as_a_whole_is_whole_wherever_that_is_said() {
    let whole = json!({"orders": orders()["orders"]});
    for mask in ["orders", "orders.name,orders", "orders,orders.name"] {
        assert_eq!(left_by(mask), whole, "{mask}");
    }
}

#[test]
fn a_field_without_a_value_stays_away() {
    let mask = FieldMask::parse("orders.replaces.name", &answer()).expect("a mask").expect("it removes something");
    let bytes = encoded(json!({"orders": [{"name": "one"}]}));
    assert_eq!(decoded(&mask.retain_encoded(&bytes).expect("a message")), json!({"orders": [{}]}));
}

#[test]
fn without_a_path_or_with_a_star_everything_is_left() {
    for text in ["", " ", ",", "*", "orders.name,*"] {
        assert_eq!(FieldMask::parse(text, &answer()), Ok(None), "{text:?}");
    }
}

#[test]
fn a_path_that_the_answer_cannot_have_is_refused_with_what_it_can() {
    let refused = |text: &str| FieldMask::parse(text, &answer()).expect_err(text).to_string();
    assert_eq!(
        refused("orders.nmae"),
        "the field mask has \"orders.nmae\", but shop.v1.Order has no field \"nmae\"; it has name, price_cents, address, \
         labels, create_time, sizes, replaces"
    );
    let ends = "has no fields of its own: end the path there";
    for (path, field) in
        [("orders.name.x", "name"), ("orders.labels.a", "labels"), ("orders.create_time.seconds", "create_time")]
    {
        assert_eq!(refused(path), format!("the field mask has {path:?}, but {field} {ends}"));
    }
    assert!(refused("orders,orders.x").contains("has no field \"x\""), "also within what is whole");
    let deep = format!("orders.{}name", "replaces.".repeat(15));
    assert!(refused(&deep).ends_with("a path has at most 16 fields"));
    assert!(FieldMask::parse(&deep.replacen("replaces.", "", 1), &answer()).is_ok());
}

#[test]
fn bytes_that_are_no_message_are_not_cut() {
    let mask = FieldMask::parse("orders.name", &answer()).expect("a mask").expect("it removes something");
    let whole = encoded(orders());
    for cut in 1..whole.len() {
        // A cut between two fields is a message.
        if DynamicMessage::decode(answer(), &whole[..cut]).is_err() {
            assert_eq!(mask.retain_encoded(&whole[..cut]), None, "{cut} bytes");
        }
    }
    assert_eq!(mask.retain_encoded(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]), None);
}

fn framed(messages: &[Vec<u8>]) -> BytesMut {
    let mut framed = BytesMut::new();
    for message in messages {
        framed.put_u8(0);
        framed.put_u32(u32::try_from(message.len()).expect("a short message"));
        framed.extend_from_slice(message);
    }
    framed
}

/// What a client gets from a service whose body has `parts` and trailers: messages as JSON, and whether the trailers came.
async fn received(path: &str, mask: Option<&str>, parts: Vec<Bytes>) -> (Option<Status>, Bytes, bool) {
    let service = service_fn(move |_: Request<()>| {
        let mut trailers = http::HeaderMap::new();
        trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
        let frames = parts.clone().into_iter().map(Frame::data).chain([Frame::trailers(trailers)]);
        let frames: Vec<Result<Frame<Bytes>, Infallible>> = frames.map(Ok).collect();
        let body = StreamBody::new(tokio_stream::iter(frames));
        std::future::ready(Ok::<_, Infallible>(Response::new(body)))
    });
    let mut request = Request::builder().uri(path);
    if let Some(mask) = mask {
        request = request.header(HEADER, mask);
    }
    let layer = FieldMaskLayer::new(&descriptor_set()).expect("descriptors");
    let response = layer.layer(service).oneshot(request.body(()).expect("a request")).await;
    let response = response.unwrap_or_else(|never| match never {});
    let status = Status::from_header_map(response.headers());
    let collected = response.into_body().collect().await.expect("a body");
    let has_trailers = collected.trailers().is_some();
    (status, collected.to_bytes(), has_trailers)
}

#[tokio::test]
async fn messages_are_masked_however_the_body_is_cut() {
    let whole = framed(&[encoded(orders()), Vec::new(), encoded(json!({"nextPageToken": "x"}))]).freeze();
    let masked = framed(&[encoded(json!({"orders": [{"name": "one"}, {"name": "two"}]})), Vec::new(), Vec::new()]);
    for length in [1, 4, 7, whole.len()] {
        let parts = whole.chunks(length).map(Bytes::copy_from_slice).collect();
        let (status, bytes, has_trailers) = received(PATH, Some("orders.name"), parts).await;
        assert!(status.is_none() && has_trailers);
        assert_eq!(bytes, masked, "in parts of {length} bytes");
    }
}

#[tokio::test]
async fn without_a_mask_or_of_another_service_the_answer_is_untouched() {
    let whole = framed(&[encoded(orders())]).freeze();
    for (path, mask) in [(PATH, None), (PATH, Some("*")), ("/other.v1.Other/List", Some("x")), ("/", Some("x"))] {
        let (status, bytes, has_trailers) = received(path, mask, vec![whole.clone()]).await;
        assert!(status.is_none() && has_trailers);
        assert_eq!(bytes, whole, "{path} {mask:?}");
    }
}

#[tokio::test]
async fn a_wrong_mask_is_refused_before_the_call() {
    let (status, bytes, _) = received(PATH, Some("order"), vec![]).await;
    let status = status.expect("an error");
    assert_eq!((status.code(), bytes.len()), (Code::InvalidArgument, 0));
    assert!(status.message().ends_with("it has orders, next_page_token"), "{}", status.message());
}

#[tokio::test]
async fn an_answer_that_is_no_message_is_an_error_and_not_a_part() {
    let body = framed(&[vec![0x0a, 0x05, 0x01]]).freeze();
    let service = service_fn(move |_: Request<()>| {
        let body = http_body_util::Full::new(body.clone());
        std::future::ready(Ok::<_, Infallible>(Response::new(body)))
    });
    let layer = FieldMaskLayer::new(&descriptor_set()).expect("descriptors");
    let request = Request::builder().uri(PATH).header(HEADER, "orders.name").body(()).expect("a request");
    let response = layer.layer(service).oneshot(request).await.unwrap_or_else(|never| match never {});
    assert_eq!(response.into_body().collect().await.expect_err("an error").code(), Code::Internal);
}
