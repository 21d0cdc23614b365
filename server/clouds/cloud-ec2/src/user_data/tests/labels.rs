use super::*;

fn flag(labels: &[(&str, &str)]) -> Result<String, UserDataError> {
    let labels = labels.iter().map(|(key, value)| (Text::from(*key), Text::from(*value))).collect();
    let text = render(&UserDataInput { labels, ..input(AmiFamily::Al2023) })?;
    let line = text.lines().find(|line| line.contains("--node-labels")).unwrap();
    Ok(line.trim_start_matches("    - \"--node-labels=\\\"").trim_end_matches("\\\"\"").to_owned())
}

#[test]
fn labels_that_a_kubelet_may_not_set_are_left_out() {
    let labels = [
        ("kubernetes.io/arch", "amd64"),
        ("topology.kubernetes.io/zone", "a"),
        ("k8s.io/x", "1"),
        ("a.b.k8s.io/x", "1"),
        ("node-restriction.kubernetes.io/x", "1"),
        ("x.node-restriction.kubernetes.io/x", "1"),
        ("notkubernetes.io/x", "1"),
        ("topology.k8s.aws/zone-id", "use1-az1"),
        ("kubernetes.io", "plain"),
        ("karpenter.sh/capacity-type", "on-demand"),
    ];
    // The capacity type of the launch wins. `kubernetes.io` without a slash has no domain.
    assert_eq!(
        flag(&labels).unwrap(),
        "karpenter.sh/capacity-type=spot,karpenter.sh/do-not-sync-taints=true,kubernetes.io=plain,\
         notkubernetes.io/x=1,topology.k8s.aws/zone-id=use1-az1"
    );
}

#[test]
fn labels_that_would_end_the_flag_are_refused() {
    let long = "a".repeat(64);
    for value in ["\"", "a\" --v=9 \"b", "a,b=c", "a b", "a\nb", "-a", "a-", "é", "$(x)", &long] {
        let error = flag(&[("example.com/a", value)]).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("metadata.labels[\"example.com/a\"]: found {value:?}, allowed: ")),
            "{error}"
        );
    }
    for key in ["", "/", "a/", "/a", "A.com/a", "a..b/c", "-a/b", "a/b/c", "a=b", "a\"", &long] {
        let error = flag(&[(key, "x")]).unwrap_err().to_string();
        assert!(error.starts_with(&format!("metadata.labels: found {key:?}, allowed: ")), "{error}");
    }
}

#[test]
fn taints_that_a_node_cannot_have_are_refused() {
    for family in [AmiFamily::Al2023, AmiFamily::Bottlerocket] {
        let refusal = |taints| render(&UserDataInput { taints, ..input(family) }).unwrap_err().to_string();
        let message = refusal(vec![taint("a", "x\"", Effect::NoSchedule)]);
        assert!(message.starts_with("spec.taints[\"a\"]: found \"x\\\"\", allowed: "), "{message}");
        let message = refusal(vec![taint("", "x", Effect::NoSchedule)]);
        assert!(message.starts_with("spec.taints: found \"\", allowed: "), "{message}");
        let message = refusal(vec![taint("a", "x", Effect::NoSchedule), taint("a", "y", Effect::NoSchedule)]);
        assert!(message.starts_with("spec.taints[\"a\"]: found \"x and y\", allowed: one value"), "{message}");
        let message = refusal(vec![taint("karpenter.sh/unregistered", "x", Effect::NoExecute)]);
        assert!(message.starts_with("spec.taints[\"karpenter.sh/unregistered\"]: found \"x and \""), "{message}");
    }
}
