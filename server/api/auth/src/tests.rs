//! Authorization with real keys.

use std::collections::BTreeMap;
use std::path::Path;

use prost_reflect::DescriptorPool;

mod deadlines;
mod endpoints;
pub mod issuer;

use super::Scope;
use super::check_listen_address;
use super::file::TrustFile;
use super::middleware::{AccessRequirement, requirement_for, scopes};
use super::rate_limit::{RateLimits, TokenBuckets};

#[test]
fn a_non_loopback_address_requires_tls_and_a_trust_file() {
    let loopback = "127.0.0.1:7450".parse().unwrap();
    let everywhere = "0.0.0.0:7450".parse().unwrap();
    assert_eq!(check_listen_address("listen.grpc", loopback, false, false), None);
    assert_eq!(check_listen_address("listen.grpc", everywhere, true, true), None);
    for (tls, trust, missing) in
        [(false, true, "listen.tls-certificate"), (true, false, "auth.file"), (false, false, "auth.file")]
    {
        let refused = check_listen_address("listen.grpc", everywhere, tls, trust).unwrap();
        assert!(refused.contains(missing), "{refused}");
    }
}

/// The methods of the API by the least scope that calls them.
const METHODS: [(Scope, &str, &[&str]); 5] = [
    (
        Scope::Read,
        "FleetService",
        &[
            "ComputeCost",
            "ComputeSavings",
            "ComputeSpend",
            "ExplainNode",
            "ExplainPod",
            "GetCluster",
            "GetDecision",
            "GetFreeze",
            "GetHold",
            "GetNode",
            "GetPod",
            "GetPool",
            "GetServerInfo",
            "ListClusters",
            "ListCostIntervals",
            "ListDecisions",
            "ListFreezes",
            "ListHolds",
            "ListNodes",
            "ListOfferings",
            "ListPods",
            "ListPools",
            "ListProblems",
            "ReadContent",
            "ReadDecisions",
            "ReadLog",
            "WatchClusters",
            "WatchDecisions",
            "WatchHold",
            "WatchNodes",
            "WatchPods",
            "WatchPools",
        ],
    ),
    (
        Scope::Operate,
        "FleetService",
        &["AcceptClusterUid", "ConfirmRemovals", "CreateFreeze", "DeleteFreeze", "ForgetCluster", "ReleaseQuarantine"],
    ),
    (Scope::Admin, "FleetService", &["ListAuditEntries"]),
    (Scope::Plan, "CapacityService", &["PlanCluster", "QuoteClusters"]),
    (Scope::Operate, "CapacityService", &["CommitHold", "CreateHold", "ReleaseHold"]),
];

#[test]
fn every_method_needs_the_scope_of_this_table() {
    let path = |service: &str, method: &str| format!("/fleetwright.v1.{service}/{method}");
    let methods = METHODS.iter().flat_map(|(scope, service, names)| {
        names.iter().map(move |name| (path(service, name), AccessRequirement::Client(*scope)))
    });
    let mut expected: BTreeMap<String, AccessRequirement> = methods.collect();
    expected.insert(path("AgentService", "Connect"), AccessRequirement::Agent);
    let pool = DescriptorPool::decode(fleetwright_proto::DESCRIPTOR_SET).unwrap();
    let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let found = methods.map(|method| path(method.parent_service().name(), method.name()));
    let found = found.map(|path| (requirement_for(&path).expect("it names an access"), path));
    assert_eq!(found.map(|(requirement, path)| (path, requirement)).collect::<BTreeMap<_, _>>(), expected);
    assert_eq!(requirement_for("/fleetwright.v1.FleetService/Unknown"), None);
    for method in ["Check", "Watch"] {
        assert_eq!(requirement_for(&format!("/grpc.health.v1.Health/{method}")), Some(AccessRequirement::Public));
    }
}

#[test]
fn nobody_calls_a_method_that_names_no_access() {
    // Messages of options as prost knows them have no extensions, so that the options of this set are gone.
    let set: prost_types::FileDescriptorSet = prost::Message::decode(fleetwright_proto::DESCRIPTOR_SET).unwrap();
    let set = prost::Message::encode_to_vec(&set);
    assert!(DescriptorPool::decode(&*set).unwrap().services().any(|service| service.methods().len() > 0));
    assert_eq!(scopes(&set), BTreeMap::new());
    assert_eq!(scopes(b"no descriptors"), BTreeMap::new());
}

#[test]
fn scopes_include_those_before_them() {
    assert!(Scope::Read < Scope::Plan && Scope::Plan < Scope::Operate && Scope::Operate < Scope::Admin);
}

#[test]
fn a_contradictory_trust_file_is_rejected() {
    let cases = [
        ("[[agents]]\ncluster = 'a'\n", "either token"),
        (
            "[[agents]]\ncluster = 'a'\ncertificate-name = 'a.example'\ntoken = { issuer = 'i', subject = 's' }\n",
            "either token",
        ),
        ("[[agents]]\ncluster = 'a'\ncertificate = 'a.example'\n", "; did you mean `certificate-name`?"),
        (
            "[[agents]]\ncluster = 'a'\ntoken = { issuer = 'i', subject = 's' }\n\
             [[agents]]\ncluster = 'b'\ntoken = { issuer = 'i', subject = 's' }\n",
            "\"a\" and \"b\" trust the same",
        ),
        (
            "[[agents]]\ncluster = 'a'\ncertificate-name = 'a.example'\ncluster-uid = 'u'\n\
             [[agents]]\ncluster = 'b'\ncertificate-name = 'b.example'\ncluster-uid = 'u'\n",
            "\"a\" and \"b\" have the same cluster-uid \"u\"",
        ),
        ("[[clients]]\nname = 'x'\nscope = 'read'\n", "either token-sha256"),
        ("[[clients]]\nname = 'x'\nscope = 'read'\ntoken-sha256 = 'abc'\n", "64 hexadecimal digits"),
        ("[[clients]]\nname = 'x'\nscope = 'everything'\ntoken-sha256 = 'abc'\n", "everything"),
    ];
    for (text, expected) in cases {
        let error = TrustFile::parse(text, Path::new("")).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn an_error_of_the_trust_file_has_the_line_and_no_secret() {
    const SECRET: &str = "7036c0ffee";
    let client = "[[clients]]\nname = 'x'\nscope = 'read'\n";
    let cases = [
        (format!("{client}token = '{SECRET}'\n"), "line 4: a token in clear is not accepted"),
        (format!("[[agents]]\ncluster = 'a'\ntoken = \"{SECRET}\"\n"), "line 3: a token in clear is not accepted"),
        (format!("{client}token-sha256 = ['{SECRET}']\n"), "line 4: found a value of type sequence, expected a string"),
        (format!("{client}token-sha256 = 7036\n"), "line 4: found a value of type integer, expected a string"),
        (format!("{client}token = 7036\n"), "line 4: found a value of type integer, expected a table"),
        (format!("{client}token = '{SECRET}\n"), "line 4: "),
        (format!("{client}token-sha = '{SECRET}'\n"), "line 4: unknown field `token-sha`"),
    ];
    for (text, expected) in cases {
        let error = TrustFile::parse(&text, Path::new("")).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
        assert!(!error.contains(SECRET) && !error.contains("7036"), "{text}: {error}");
    }
}

#[test]
fn a_stream_may_burst_and_is_then_limited() {
    // Two messages at once, then ten a second: the third waits 100 ms, and after that 100 ms each.
    let limits = RateLimits { messages_burst: 2, messages_per_s: 10, bytes_burst: 1 << 30, bytes_per_s: 1 << 30 };
    let mut buckets = TokenBuckets::new(limits, 0);
    assert_eq!([buckets.charge(1, 0), buckets.charge(1, 0), buckets.charge(1, 0)], [0, 0, 100]);
    assert_eq!(buckets.charge(1, 100), 100);
    assert_eq!(buckets.charge(1, 200), 100);
    // A second without messages refills the two.
    assert_eq!([buckets.charge(1, 1300), buckets.charge(1, 1300), buckets.charge(1, 1300)], [0, 0, 100]);
}

#[test]
fn a_large_message_delays_the_next_one() {
    // 1,000 bytes at once and 1,000 a second, which is 1 a millisecond: 1,500 bytes leave a debt of
    // 500.
    let limits = RateLimits { messages_burst: 100, messages_per_s: 100, bytes_burst: 1_000, bytes_per_s: 1_000 };
    let mut buckets = TokenBuckets::new(limits, 0);
    assert_eq!(buckets.charge(1_500, 0), 500);
    assert_eq!(buckets.charge(0, 500), 0);
}
