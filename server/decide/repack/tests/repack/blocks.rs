//! What blocks a node. In each test the same cluster without the block is repacked onto one `box`, so
//! a guard that is switched off fails the test of its name.

use crate::{node, owned_pod, pod, rendered, repack};

/// The three nodes with `held` as what runs on `n-1`. The block keeps `n-1`, whose free CPUs then
/// carry the other pods: 0.40 instead of 0.20.
fn cluster(held: &str) -> String {
    let others = node("n-2", "big", "")
        + &pod("web-2", "web", "n-2", "", "")
        + &node("n-3", "big", "")
        + &pod("web-3", "web", "n-3", "", "");
    held.to_owned() + &others
}

fn assert_held(held: &str, line: &str) {
    assert_eq!(
        rendered(&cluster(held)),
        format!(
            "now 1.20, needed 0.20, held 0.20\nmove web-2 to n-1\nmove web-3 to n-1\nn-1 stays (Underutilized): {line}\n"
        )
    );
}

fn assert_free(held: &str) {
    let expected = "now 1.20, needed 0.20, held 0.00\nlaunch box: web-1 web-2 web-3\n";
    assert_eq!(rendered(&cluster(held)), expected);
}

fn budget(name: &str, spec: &str, status: &str) -> String {
    format!(
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {{name: {name}, namespace: shop}}\nspec: {{selector: \
         {{matchLabels: {{app: guarded}}}}, {spec}}}\n{status}\n---\n"
    )
}

fn guarded_pod() -> String {
    node("n-1", "big", "") + &pod("web-1", "guarded", "n-1", "", "")
}

#[test]
fn a_budget_without_allowed_disruptions_blocks() {
    let held = guarded_pod() + &budget("db", "maxUnavailable: 1", "status: {disruptionsAllowed: 0}");
    let budget_line =
        "PodDisruptionBudget: PodDisruptionBudget/shop/db allows no eviction now, and selects pod shop/web-1";
    assert_held(&held, budget_line);
    assert_free(&(guarded_pod() + &budget("db", "maxUnavailable: 0", "status: {disruptionsAllowed: 1}")));
    // Without a status the threshold decides: it selects one pod, and one must be available.
    assert_held(&(guarded_pod() + &budget("db", "minAvailable: 1", "")), budget_line);
    assert_free(&(guarded_pod() + &budget("db", "maxUnavailable: 1", "")));
}

#[test]
fn a_pod_with_two_budgets_blocks() {
    let allowed = "status: {disruptionsAllowed: 1}";
    let held = guarded_pod() + &budget("a", "maxUnavailable: 1", allowed) + &budget("b", "maxUnavailable: 1", allowed);
    let line = |name| {
        format!(
            "PodDisruptionBudget: PodDisruptionBudget/shop/{name} selects pod shop/web-1 beside another budget: a pod \
             with several is never evicted"
        )
    };
    assert_held(&held, &format!("{}\nn-1 stays (Underutilized): {}", line("a"), line("b")));
}

#[test]
fn do_not_disrupt_on_a_pod_blocks_while_it_lasts() {
    let held = |value: &str| {
        node("n-1", "big", "") + &pod("web-1", "web", "n-1", &format!("karpenter.sh/do-not-disrupt: \"{value}\""), "")
    };
    let line = "DoNotDisrupt: Pod/shop/web-1 has karpenter.sh/do-not-disrupt";
    assert_held(&held("true"), line);
    // The pod has run for an hour.
    assert_held(&held("61m"), &format!("{line}, which ends in 1 min 0 s, at 2026-01-01T12:01:00Z"));
    assert_free(&held("60m"));
    assert_free(&held("false"));
}

#[test]
fn do_not_disrupt_on_a_node_blocks_it_and_not_its_pods() {
    let held = |value: &str| {
        let annotation = format!(", annotations: {{karpenter.sh/do-not-disrupt: \"{value}\"}}");
        node("n-1", "big", &annotation) + &pod("web-1", "web", "n-1", "", "")
    };
    let expected = |lasting: &str| {
        format!(
            "now 1.20, needed 0.20, held 0.20\nmove web-1 to n-1\nmove web-2 to n-1\nmove web-3 to n-1\nn-1 stays \
             (Underutilized): {lasting}\n"
        )
    };
    let line = "DoNotDisrupt: Node/n-1 has karpenter.sh/do-not-disrupt";
    assert_eq!(rendered(&cluster(&held("true"))), expected(line));
    // The node was created twelve hours ago.
    let ends = format!("{line}, which ends in 1 h 0 min, at 2026-01-01T13:00:00Z");
    assert_eq!(rendered(&cluster(&held("13h"))), expected(&ends));
    assert_free(&held("12h"));
}

#[test]
fn safe_to_evict_false_blocks() {
    let held = |value: &str| {
        let annotation = format!("cluster-autoscaler.kubernetes.io/safe-to-evict: \"{value}\"");
        node("n-1", "big", "") + &pod("web-1", "web", "n-1", &annotation, "")
    };
    let line = "SafeToEvict: Pod/shop/web-1 has cluster-autoscaler.kubernetes.io/safe-to-evict: \"false\"";
    assert_held(&held("false"), line);
    assert_free(&held("true"));
}

/// A pod on `n-1` with the claim `data`, bound to the volume `disk` with `source` and node affinity.
fn pod_with_volume(source: &str, key: &str, value: &str) -> String {
    let volume = format!(
        "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: disk}}\nspec: {{{source}, nodeAffinity: {{required: \
         {{nodeSelectorTerms: [{{matchExpressions: [{{key: {key}, operator: In, values: [{value}]}}]}}]}}}}}}\n---\n"
    );
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: shop, annotations: \
                 {pv.kubernetes.io/bind-completed: \"yes\"}}\nspec: {volumeName: disk}\n---\n";
    let volumes = ", volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]";
    node("n-1", "big", "") + &pod("web-1", "web", "n-1", "", volumes) + &volume + claim
}

#[test]
fn a_volume_on_the_disk_of_the_node_blocks() {
    let line = "LocalVolume: PersistentVolume/disk is on the disk of the node, and pod shop/web-1 uses it";
    assert_held(&pod_with_volume("local: {path: /data}", "kubernetes.io/hostname", "n-1"), line);
    // A CSI driver may have volumes on one node as well.
    let csi = "csi: {driver: local.csi.dev, volumeHandle: disk}";
    assert_held(&pod_with_volume(csi, "kubernetes.io/hostname", "n-1"), line);
    assert_free(&pod_with_volume(csi, "topology.kubernetes.io/zone", "lab-a"));
}

#[test]
fn a_pod_without_an_owner_blocks() {
    let held = |kind: &str| node("n-1", "big", "") + &owned_pod("web-1", "web", "n-1", "", "", kind);
    assert_held(&held(""), "NoOwner: Pod/shop/web-1 has no owner that would start it again");
    assert_free(&held("Job"));
}

#[test]
fn daemon_and_mirror_pods_end_with_their_node() {
    let daemon = owned_pod("agent-1", "agent", "n-1", "", "", "DaemonSet");
    let mirror = owned_pod("proxy-1", "n-1", "n-1", "kubernetes.io/config.mirror: abc", "", "Node");
    // It was protected for its first minute.
    let annotations = "karpenter.sh/do-not-disrupt: 1m, cluster-autoscaler.kubernetes.io/safe-to-evict: \"false\"";
    let unsafe_daemon = daemon.replace("annotations: {", &format!("annotations: {{{annotations}"));
    for bound in [&daemon, &mirror, &unsafe_daemon] {
        assert_free(&(node("n-1", "big", "") + &pod("web-1", "web", "n-1", "", "") + bound));
    }
    // As in Karpenter, do-not-disrupt protects its node on every pod.
    let protected = daemon.replace("annotations: {", "annotations: {karpenter.sh/do-not-disrupt: \"true\"");
    let nodes = node("n-1", "big", "") + &pod("web-1", "web", "n-1", "", "") + &protected;
    let blockers = repack(&cluster(&nodes)).summary.held;
    assert_eq!(blockers[0].by[0].object, "Pod/shop/agent-1");
}

#[test]
fn a_pod_of_another_scheduler_stays_and_is_a_need_of_the_cluster() {
    let held = node("n-1", "big", "") + &pod("web-1", "web", "n-1", "", ", schedulerName: volcano");
    assert_eq!(
        rendered(&cluster(&held)),
        "now 1.20, needed 0.40, held 0.00\nmove web-2 to n-1\nmove web-3 to n-1\nn-1 stays (Underutilized): \
         OtherScheduler: Pod/shop/web-1 is placed by the scheduler volcano, which is not planned for\n"
    );
}

#[test]
fn nodes_of_a_static_pool_stay() {
    let pool = "apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {name: fixed}\nspec: {replicas: 1, template: \
                {spec: {nodeClassRef: {group: lab.dev, kind: LabClass, name: default}, requirements: []}}}\n---\n";
    let node = node("n-1", "big", "")
        .replace("labels: {", "labels: {karpenter.sh/nodepool: fixed, karpenter.sh/initialized: \"true\", ");
    let held = pool.to_owned() + &node + &pod("web-1", "web", "n-1", "", "");
    assert_eq!(
        rendered(&cluster(&held)),
        "now 1.20, needed 0.40, held 0.00\nmove web-1 to n-1\nmove web-2 to n-1\nmove web-3 to n-1\nn-1 stays \
         (Underutilized): Static: NodePool/fixed has a fixed number of nodes (replicas: 1)\n"
    );
}

#[test]
fn a_pod_that_fits_nowhere_else_keeps_its_node() {
    let special = |name: &str| node(name, "big", "").replace("labels: {", "labels: {disk: fast, ");
    let held = special("n-1") + &pod("web-1", "web", "n-1", "", ", nodeSelector: {disk: fast}");
    let text = rendered(&cluster(&held));
    // The need of the pod is no block: nobody can lift it.
    let head = "now 1.20, needed 0.40, held 0.00\nmove web-2 to n-1\nmove web-3 to n-1\nn-1 stays (Underutilized): \
                NoCapacity: Pod/shop/web-1 has no other place: pool default: Requirements: ";
    assert!(text.starts_with(head), "{text}");
}

#[test]
fn all_that_blocks_a_node_is_named() {
    let annotations =
        "karpenter.sh/do-not-disrupt: \"true\", cluster-autoscaler.kubernetes.io/safe-to-evict: \"false\"";
    let held = node("n-1", "big", "")
        + &owned_pod("web-1", "guarded", "n-1", annotations, "", "")
        + &budget("db", "maxUnavailable: 0", "");
    let repacking = repack(&cluster(&held));
    let codes: Vec<&str> = repacking.summary.held[0].by.iter().map(|by| by.code.as_str()).collect();
    assert_eq!(codes, ["PodDisruptionBudget", "DoNotDisrupt", "SafeToEvict", "NoOwner"]);
}

#[test]
fn blockers_are_listed_by_the_price_of_their_nodes() {
    // `n-4` is a `box`, and the budget blocks it and `n-1`: 0.20 + 0.40 = 0.60. `n-2` costs 0.40.
    let text = guarded_pod()
        + &node("n-2", "big", "")
        + &pod("web-2", "web", "n-2", "karpenter.sh/do-not-disrupt: \"true\"", "")
        + &node("n-4", "box", "")
        + &pod("web-4", "guarded", "n-4", "", "")
        + &budget("db", "maxUnavailable: 0", "");
    let repacking = repack(&text);
    let line = |total: &repack::BlockerTotal<'_>| format!("{} {} {}", total.blocker.object, total.nodes, total.price);
    let blockers: Vec<String> = repacking.summary.blockers(true).iter().map(line).collect();
    assert_eq!(blockers, ["PodDisruptionBudget/shop/db 2 0.60", "Pod/shop/web-2 1 0.40"]);
}
