//! Who is let in, on real keys.

use std::path::Path;

mod deadlines;
pub(crate) mod doors;

use super::Scope;
use super::budget::{Budget, Limits};
use super::file::TrustFile;
use super::gate::{Needs, needs};
use super::refuse_to_listen;

#[test]
fn an_address_that_others_reach_needs_encryption_and_trust() {
    let loopback = "127.0.0.1:7450".parse().unwrap();
    let everywhere = "0.0.0.0:7450".parse().unwrap();
    assert_eq!(refuse_to_listen("listen.grpc", loopback, false, false), None);
    assert_eq!(refuse_to_listen("listen.grpc", everywhere, true, true), None);
    for (tls, trust, missing) in
        [(false, true, "listen.tls-certificate"), (true, false, "trust.file"), (false, false, "trust.file")]
    {
        let refused = refuse_to_listen("listen.grpc", everywhere, tls, trust).unwrap();
        assert!(refused.contains(missing), "{refused}");
    }
}

#[test]
fn every_method_of_our_services_says_what_it_needs() {
    let set: prost_types::FileDescriptorSet = prost::Message::decode(fleetwright_proto::DESCRIPTOR_SET).unwrap();
    let mut methods = Vec::new();
    for file in set.file.iter().filter(|file| file.package() == "fleetwright.v1") {
        for service in &file.service {
            let name = |method: &prost_types::MethodDescriptorProto| {
                format!("/fleetwright.v1.{}/{}", service.name(), method.name())
            };
            methods.extend(service.method.iter().map(name));
        }
    }
    assert!(methods.len() > 5, "{methods:?}");
    let silent: Vec<&String> = methods.iter().filter(|method| needs(method).is_none()).collect();
    assert!(silent.is_empty(), "methods without an entry in the gate: {silent:?}");
    let open: Vec<&String> = methods.iter().filter(|method| needs(method) == Some(Needs::Nothing)).collect();
    assert!(open.is_empty(), "methods that anybody may call: {open:?}");
}

#[test]
fn scopes_contain_those_before_them() {
    assert!(Scope::Read < Scope::Plan && Scope::Plan < Scope::Operate && Scope::Operate < Scope::Admin);
}

#[test]
fn a_trust_file_that_says_two_things_at_once_is_refused() {
    let cases = [
        ("[[agents]]\ncluster = 'a'\n", "either token"),
        (
            "[[agents]]\ncluster = 'a'\ncertificate-name = 'a.example'\ntoken = { issuer = 'i', subject = 's' }\n",
            "either token",
        ),
        ("[[agents]]\ncluster = 'a'\ncertificate = 'a.example'\n", "unknown field"),
        (
            "[[agents]]\ncluster = 'a'\ntoken = { issuer = 'i', subject = 's' }\n\
             [[agents]]\ncluster = 'b'\ntoken = { issuer = 'i', subject = 's' }\n",
            "\"a\" and \"b\" trust the same",
        ),
        ("[[clients]]\nname = 'x'\nscope = 'read'\n", "either token-sha256"),
        ("[[clients]]\nname = 'x'\nscope = 'read'\ntoken-sha256 = 'abc'\n", "64 hexadecimal digits"),
        ("[[clients]]\nname = 'x'\nscope = 'everything'\ntoken-sha256 = 'abc'\n", "everything"),
    ];
    for (text, said) in cases {
        let error = TrustFile::parse(text, Path::new("")).unwrap_err();
        assert!(error.contains(said), "{text}: {error}");
    }
}

#[test]
fn a_stream_may_burst_and_then_keeps_to_its_rate() {
    // Two messages at once, then ten a second: the third waits 100 ms, and after that 100 ms each.
    let limits = Limits { messages_burst: 2, messages_per_s: 10, bytes_burst: 1 << 30, bytes_per_s: 1 << 30 };
    let mut budget = Budget::new(limits, 0);
    assert_eq!([budget.spend(1, 0), budget.spend(1, 0), budget.spend(1, 0)], [0, 0, 100]);
    assert_eq!(budget.spend(1, 100), 100);
    assert_eq!(budget.spend(1, 200), 100);
    // A second of silence refills the two.
    assert_eq!([budget.spend(1, 1300), budget.spend(1, 1300), budget.spend(1, 1300)], [0, 0, 100]);
}

#[test]
fn a_large_message_is_paid_for_by_waiting() {
    // 1,000 bytes at once and 1,000 a second, which is 1 a millisecond: 1,500 bytes leave a debt of 500.
    let limits = Limits { messages_burst: 100, messages_per_s: 100, bytes_burst: 1_000, bytes_per_s: 1_000 };
    let mut budget = Budget::new(limits, 0);
    assert_eq!(budget.spend(1_500, 0), 500);
    assert_eq!(budget.spend(0, 500), 0);
}
