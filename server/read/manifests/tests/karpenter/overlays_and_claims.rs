//! NodeOverlays and NodeClaims.

use manifests::karpenter::node_overlay::PriceChange;
use manifests::karpenter::{NodeClaimManifest, NodeOverlayManifest};

use super::{messages, read_with};

fn overlay(spec: &str) -> (NodeOverlayManifest, Vec<String>) {
    let yaml =
        format!("{{apiVersion: karpenter.sh/v1alpha1, kind: NodeOverlay, metadata: {{name: o}}, spec: {{{spec}}}}}");
    let (read, errors) = read_with(&yaml, NodeOverlayManifest::read);
    (read.unwrap(), messages(&errors))
}

#[test]
fn an_overlay_changes_price_or_capacity() {
    let (read, errors) = overlay(
        "requirements: [{key: a, operator: NotIn, values: [b]}], priceAdjustment: -15%, capacity: {example.com/fuse: 2}, weight: 10000",
    );
    assert_eq!(errors, [""; 0]);
    assert_eq!(
        (read.price, read.capacity.get("example.com/fuse"), read.weight),
        (Some(PriceChange::Percent(-15_000_000)), 2, 10_000)
    );
    let (read, _) = overlay("requirements: [], price: '0.081'");
    assert_eq!(read.price, Some(PriceChange::Absolute(81_000)));
}

#[test]
fn an_overlay_is_checked() {
    for spec in [
        "requirements: [], price: '1', priceAdjustment: '+1'",
        "requirements: [], capacity: {cpu: 1}",
        "requirements: [], weight: 0",
        "requirements: [], price: '-1'",
        "requirements: [{key: a, operator: Exists, minValues: 2}]",
        "requirements: [{key: a, operator: NotIn}]",
        "price: '1'",
    ] {
        assert_eq!(overlay(spec).1.len(), 1, "{spec}: {:?}", overlay(spec).1);
    }
}

#[test]
fn a_claim_has_its_spec_and_its_status() {
    let yaml = "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: web-x7, labels: {karpenter.sh/nodepool: web}, creationTimestamp: 2026-01-01T00:00:00Z}\n\
                spec:\n  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: base}\n  expireAfter: Never\n  \
                requirements: [{key: karpenter.sh/nodepool, operator: In, values: [web]}]\n  resources: {requests: {cpu: 2500m}}\n\
                status: {providerID: 'aws:///a/i-1', capacity: {cpu: 4}, allocatable: {cpu: 3920m}, conditions: [{type: Launched, status: 'True'}]}\n";
    let (read, errors) = read_with(yaml, NodeClaimManifest::read);
    assert_eq!(messages(&errors), [""; 0]);
    let read = read.unwrap();
    assert_eq!((read.pool, read.provider_id, read.node_name), (Some("web".into()), Some("aws:///a/i-1".into()), None));
    assert_eq!((read.requests.get("cpu"), read.capacity.get("cpu"), read.allocatable.get("cpu")), (2500, 4000, 3920));
    assert_eq!(read.expire_after, None);
    assert!(read.conditions.is_true("Launched") && !read.conditions.is_true("Registered"));
}
