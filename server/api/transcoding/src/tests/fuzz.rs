//! Random paths, queries and bodies: each is answered, and none is an error of the server. `FUZZ_SECONDS` is the length of the
//! run, and `FUZZ_SEED` another seed; without them the run has a fixed number of requests.

use std::time::{Duration, Instant};

use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::Value;

use super::{Fixture, lock};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("below a usize")
    }

    fn one_of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len())]
    }

    fn soup(&mut self, texts: &[&str], longest: usize) -> String {
        (0..self.below(longest)).map(|_| self.one_of(texts)).collect()
    }
}

const PATHS: [&str; 8] = [
    "/v1/echo",
    "/v1/echo/",
    "/v1/files/",
    "/v1/nodes",
    "/v1/clusters/a/nodes/b",
    "/v1/clusters/a:freeze",
    "/v1/clusters/",
    "/",
];
const PATH_PARTS: [&str; 12] = ["a", "/", ":", "%2F", "%2f", "%", "%ff", "%E2%82%AC", "..", "*", "{", ":watch"];
const QUERY_PARTS: [&str; 43] = [
    "$fields=",
    "&%24fields=text",
    ",",
    "text",
    "flag",
    "small",
    "large",
    "smallPositive",
    "fraction",
    "data",
    "state",
    "numbers",
    "states",
    "counts",
    "child",
    "children",
    "first",
    "second",
    "time",
    "wait",
    "mask",
    "maybe",
    "object",
    "any",
    "present",
    "pageSize",
    "parent",
    "name",
    "=",
    "=",
    "=",
    "&",
    "&",
    ".",
    "%",
    "%20",
    "+",
    "true",
    "-1",
    "1e9",
    "ACTIVE",
    "2026-01-31T08:00:00Z",
    "1.5s",
];
const BODY_PARTS: [&str; 44] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "\\u0000",
    "\\ud800",
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1e400",
    "1.5",
    "\"\"",
    "{}",
    "[]",
    "\"text\":",
    "\"flag\":",
    "\"small\":",
    "\"large\":",
    "\"numbers\":",
    "\"states\":",
    "\"counts\":",
    "\"child\":{",
    "\"children\":[{",
    "\"first\":",
    "\"second\":",
    "\"time\":",
    "\"wait\":",
    "\"mask\":",
    "\"maybe\":",
    "\"object\":{",
    "\"any\":{",
    "\"@type\":",
    "\"type.googleapis.com/test.v1.Node\"",
    "\"type.googleapis.com/google.protobuf.Struct\"",
    "\"value\":",
    "é",
    "\"ACTIVE\"",
    "\n",
];
/// Members that are right, so that bodies are often accepted.
const MEMBERS: [&str; 10] = [
    "\"text\":\"a\"",
    "\"flag\":true",
    "\"large\":\"5\"",
    "\"numbers\":[1,\"2\"]",
    "\"state\":\"ACTIVE\"",
    "\"counts\":{\"a\":1}",
    "\"object\":{\"a\":[null,{}]}",
    "\"child\":{\"small\":1}",
    "\"any\":{\"@type\":\"type.googleapis.com/test.v1.Node\",\"name\":\"n\"}",
    "\"wait\":\"1.5s\"",
];

fn body(random: &mut Random) -> Vec<u8> {
    match random.below(3) {
        0 => random.soup(&BODY_PARTS, 24).into_bytes(),
        1 => (0..random.below(64)).map(|_| random.next().to_le_bytes()[0]).collect(),
        _ => {
            let members: Vec<&str> = (0..random.below(4)).map(|_| random.one_of(&MEMBERS)).collect();
            let mut body = format!("{{{}}}", members.join(",")).into_bytes();
            if random.below(2) == 0 {
                let at = random.below(body.len());
                body[at] = random.next().to_le_bytes()[0];
            }
            body
        }
    }
}

fn request(random: &mut Random) -> Option<Request<Full<prost::bytes::Bytes>>> {
    let path = format!("{}{}", random.one_of(&PATHS), random.soup(&PATH_PARTS, 5));
    let query = random.soup(&QUERY_PARTS, 8);
    let uri = if random.below(2) == 0 { path } else { format!("{path}?{query}") };
    let method = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE][random.below(5)].clone();
    let body = if method == Method::GET { Vec::new() } else { body(random) };
    let request = Request::builder().method(method).uri(uri).header("content-type", "application/json");
    request.body(Full::from(body)).ok()
}

#[tokio::test]
async fn random_requests_never_fail_the_server() {
    let variable = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let end = variable("FUZZ_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut random = Random(variable("FUZZ_SEED").unwrap_or(1));
    let fixture = Fixture::new();
    let (mut sent, mut accepted) = (0u64, 0u64);
    while end.map_or(sent < 5_000, |end| Instant::now() < end) {
        let Some(request) = request(&mut random) else { continue };
        fixture.service.stream(futures::stream::empty());
        let shown = format!("{request:?}");
        let response = fixture.send(request).await;
        let status = response.status();
        assert!(!status.is_server_error(), "{status} for {shown}");
        let bytes = response.into_body().collect().await.expect("a body").to_bytes();
        let is_stream = bytes.is_empty() && status.is_success();
        let json = serde_json::from_slice::<Value>(&bytes);
        assert!(is_stream || json.is_ok_and(|json| status.is_success() != json["error"].is_object()), "{shown}");
        sent += 1;
        accepted += u64::from(status.is_success());
        assert_eq!(u64::from(status.is_success()), lock(&fixture.service.calls).drain(..).count() as u64, "{shown}");
    }
    println!("sent={sent} accepted={accepted}");
    assert!(accepted > sent / 100, "too few requests are accepted: sent={sent} accepted={accepted}");
}
