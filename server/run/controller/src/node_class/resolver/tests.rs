use super::*;
use model::node_class::InstanceIdentity;

fn spec(role: &str) -> Arc<NodeClassSpec> {
    Arc::new(NodeClassSpec { identity: InstanceIdentity::Role(Text::from(role)), ..NodeClassSpec::default() })
}

fn query(spec: &Arc<NodeClassSpec>, facts: &Arc<ClusterFacts>) -> NodeClassQuery {
    NodeClassQuery {
        cluster: "blue".into(),
        cluster_uid: Text::from("uid-1"),
        name: Text::from("default"),
        uid: Text::from("u-1"),
        spec: Arc::clone(spec),
        status: Arc::default(),
        facts: Arc::clone(facts),
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(0) + Millis::from_secs(seconds)
}

#[test]
fn a_class_is_resolved_once_until_its_next_time_or_a_change() {
    let (mut resolver, name) = (NodeClassResolver::default(), Text::from("default"));
    let (first, second, facts) = (spec("a"), spec("b"), Arc::<ClusterFacts>::default());
    assert!(resolver.request(&name, &first, &facts, at(0)));
    assert!(!resolver.request(&name, &first, &facts, at(1)), "an answer is awaited");
    assert!(resolver.record(&query(&first, &facts), ResolvedNodeClass::default(), at(61)));
    assert!(!resolver.request(&name, &first, &facts, at(60)));
    assert_eq!(resolver.next_wakeup(), Some(at(61)));
    assert!(resolver.request(&name, &second, &facts, at(5)), "the spec has changed");
    let moved = Arc::new(ClusterFacts { endpoint: Text::from("https://c"), ..ClusterFacts::default() });
    assert!(resolver.request(&name, &second, &moved, at(6)), "the cluster's facts have changed");
    assert!(resolver.request(&name, &second, &moved, at(126)), "the answer is overdue");
}

#[test]
fn an_answer_to_an_earlier_spec_is_dropped() {
    let (mut resolver, name) = (NodeClassResolver::default(), Text::from("default"));
    let (first, second, facts) = (spec("a"), spec("b"), Arc::<ClusterFacts>::default());
    resolver.request(&name, &first, &facts, at(0));
    resolver.request(&name, &second, &facts, at(1));
    assert!(!resolver.record(&query(&first, &facts), ResolvedNodeClass::default(), at(61)));
    assert_eq!(resolver.resolved(&name), None);
    assert!(resolver.record(&query(&second, &facts), ResolvedNodeClass::default(), at(61)));
    assert!(resolver.resolved(&name).is_some());
}
