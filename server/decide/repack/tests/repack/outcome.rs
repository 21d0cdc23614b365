//! What a repacking costs, and when the cluster is left as it is.

use crate::{node, pod, read, rendered, repack, three_nodes};

fn pending_pod(name: &str) -> String {
    pod(name, "web", "n-1", "", "").replace("nodeName: n-1, ", "").replace("phase: Running", "phase: Pending")
}

#[test]
fn three_nodes_with_a_pod_each_are_repacked_onto_one() {
    assert_eq!(rendered(&three_nodes()), "now 1.20, needed 0.20, held 0.00\nlaunch box: web-1 web-2 web-3\n");
    let repacking = repack(&three_nodes());
    assert_eq!((repacking.summary.removed, repacking.summary.cost.after()), (3, model::MicroUsd(200_000)));
}

#[test]
fn a_cluster_that_is_packed_already_is_left_as_it_is() {
    let text: String =
        node("n-1", "box", "") + &(1..5).map(|n| pod(&format!("web-{n}"), "web", "n-1", "", "")).collect::<String>();
    let unpaid = "repacked it would cost $0.20 an hour, and as it is it costs $0.20";
    assert_eq!(
        rendered(&text),
        format!(
            "now 0.20, needed 0.20, held 0.00\nn-1 stays (Underutilized): NoSavings: Node/n-1 {unpaid}\nnote: the \
             cluster is left as it is: {unpaid}\n"
        )
    );
}

/// The node uses reserved capacity, which is paid for already. Its pods need a `box` elsewhere.
#[test]
fn a_plan_that_is_dearer_than_the_cluster_is_not_advised() {
    let reserved = node("n-1", "big", "")
        .replace("karpenter.sh/capacity-type: on-demand", "eks.amazonaws.com/capacityType: CAPACITY_BLOCK");
    let unpaid = "repacked it would cost $0.20 an hour, and as it is it costs $0.00";
    assert_eq!(
        rendered(&(reserved + &pod("web-1", "web", "n-1", "", ""))),
        format!(
            "now 0.00, needed 0.00, held 0.00\nn-1 stays (Underutilized): NoSavings: Node/n-1 {unpaid}\nnote: the \
             cluster is left as it is: {unpaid}\n"
        )
    );
}

#[test]
fn pods_that_are_pending_already_are_needed_and_not_paid_now() {
    // Four CPUs of the three pods and the pending one fill a `box`.
    assert_eq!(
        rendered(&(three_nodes() + &pending_pod("web-0"))),
        "now 1.20, needed 0.20, held 0.00\nlaunch box: web-0 web-1 web-2 web-3\nnote: 1 pod is pending already: the \
         nodes launched for them are in what is needed and not in what is paid now\n"
    );
}

/// The pool may have four CPUs. `n-1` and `n-2`, of no pool, carry a pod with priority each, and have room
/// for the four pending ones. Repacked, four of the six pods would fit into the limit.
#[test]
fn a_repacking_that_places_fewer_pods_is_not_advised() {
    let pending: String = (0..4).map(|n| pending_pod(&format!("new-{n}"))).collect();
    let running = |n: u32| {
        let name = format!("n-{n}");
        node(&name, "big", "") + &pod(&format!("web-{n}"), "web", &name, "", ", priority: 10")
    };
    let rendered = crate::rendered_with_limit(4, &(running(1) + &running(2) + &pending));
    let reason = "note: the cluster is left as it is: repacked it would have no place for 2 pods that are pending, and as it \
                  is for 0\n";
    assert!(rendered.starts_with("now 0.80, needed 0.80, held 0.00\n") && rendered.contains(reason), "{rendered}");
}

/// `n-1` is being deleted, and its pod leaves it in any case: 0.80 now, and 0.40 without a repacking. A
/// `box` for both pods costs 0.20.
#[test]
fn a_node_that_is_being_deleted_is_paid_now_and_not_needed() {
    let leaving = node("n-1", "big", "").replace("metadata: {", "metadata: {deletionTimestamp: 2026-01-01T11:59:00Z, ");
    let text =
        leaving + &pod("web-1", "web", "n-1", "", "") + &node("n-2", "big", "") + &pod("web-2", "web", "n-2", "", "");
    assert_eq!(rendered(&text), "now 0.80, needed 0.20, held 0.00\nlaunch box: web-1 web-2\n");
}

#[test]
fn a_pending_pod_without_a_place_is_reported_and_blocks_nothing() {
    let lost = pending_pod("lost").replace("spec: {", "spec: {nodeSelector: {disk: fast}, ");
    let text = rendered(&(three_nodes() + &lost));
    assert!(text.contains("\nlaunch box: web-1 web-2 web-3\nno place for lost\n"), "{text}");
}

#[test]
fn a_node_without_a_known_price_gives_room_and_costs_nothing() {
    // `n-4` has room for the three pods. The others cost 1.20 and are removed.
    let unknown = node("n-4", "big", "").replace("instance-type: big", "instance-type: mainframe");
    let text = three_nodes() + &unknown;
    assert_eq!(
        rendered(&text),
        "now 1.20, needed 0.00, held 0.00\nmove web-1 to n-4\nmove web-2 to n-4\nmove web-3 to n-4\n"
    );
    let note = "the price of nodes is unknown: they stay, provide capacity, and are in none of the costs: n-4";
    assert!(read(&text).notes.contains(&note.to_owned()), "{:?}", read(&text).notes);
}

#[test]
fn a_node_of_a_managed_node_group_is_repacked_by_its_own_label() {
    let managed =
        three_nodes().replace("karpenter.sh/capacity-type: on-demand", "eks.amazonaws.com/capacityType: ON_DEMAND");
    assert_eq!(rendered(&managed), "now 1.20, needed 0.20, held 0.00\nlaunch box: web-1 web-2 web-3\n");
    // No spot price of these types is known, and reserved capacity is paid for already.
    let unknown = managed.replace("ON_DEMAND", "SPOT");
    assert_eq!(read(&unknown).running.nodes.len(), 0);
    let block = read(&managed.replace("ON_DEMAND", "CAPACITY_BLOCK"));
    assert_eq!(block.running.nodes.iter().map(|node| node.price.0).sum::<i64>(), 0);
}

/// `n-1` has a budget of zero, `n-2` do-not-disrupt and a pod without an owner, `n-3` a free pod;
/// `n-4`, of a managed node group, a local volume. All are `big`: 1.60.
///
/// The blocks keep `n-1`, `n-2` and `n-4`: 1.20. Without them the five CPUs need one `big` (0.40).
#[test]
fn a_small_cluster_with_one_block_of_each_kind() {
    let volume = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: disk}\nspec: {local: {path: /data}, nodeAffinity: \
                  {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: \
                  [n-4]}]}]}}}\n---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data, namespace: shop, \
                  annotations: {pv.kubernetes.io/bind-completed: \"yes\"}}\nspec: {volumeName: disk}\n---\napiVersion: \
                  policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: db, namespace: shop}\nspec: {maxUnavailable: 0, \
                  selector: {matchLabels: {app: db}}}\nstatus: {disruptionsAllowed: 0}\n---\n";
    let managed = node("n-4", "big", "")
        .replace("karpenter.sh/capacity-type: on-demand", "eks.amazonaws.com/capacityType: ON_DEMAND");
    let text = node("n-1", "big", "")
        + &pod("db-1", "db", "n-1", "", "")
        + &node("n-2", "big", "")
        + &pod("batch-1", "batch", "n-2", "karpenter.sh/do-not-disrupt: \"true\"", "")
        + &crate::owned_pod("debug", "debug", "n-2", "", "", "")
        + &node("n-3", "big", "")
        + &pod("web-1", "web", "n-3", "", "")
        + &managed
        + &pod("cache-1", "cache", "n-4", "", ", volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]")
        + volume;
    let rendered = rendered(&text);
    let (moves, held): (Vec<&str>, Vec<&str>) = rendered.lines().partition(|line| !line.contains(" stays "));
    assert_eq!(moves[0], "now 1.60, needed 0.40, held 0.80");
    assert!(moves.len() == 2 && moves[1].starts_with("move web-1 to n-"), "{moves:?}");
    assert_eq!(
        held,
        [
            "n-1 stays (Underutilized): PodDisruptionBudget: PodDisruptionBudget/shop/db allows no eviction now, and \
             selects pod shop/db-1",
            "n-2 stays (Underutilized): DoNotDisrupt: Pod/shop/batch-1 has karpenter.sh/do-not-disrupt",
            "n-2 stays (Underutilized): NoOwner: Pod/shop/debug has no owner that would start it again",
            "n-4 stays (Underutilized): LocalVolume: PersistentVolume/disk is on the disk of the node, and pod \
             shop/cache-1 uses it",
        ]
    );
}

/// `n-1` and `n-2` are `box`, held by a pod of three CPUs each, so that each has room for one pod. `n-3`
/// is removed, and its pods go to a new node.
#[test]
fn a_pod_whose_node_stays_remains_on_it_rather_than_one_of_its_like() {
    let held = |n: usize| {
        node(&format!("n-{n}"), "box", "")
            + &crate::owned_pod(&format!("held-{n}"), "held", &format!("n-{n}"), "", "", "").replace("cpu: 1", "cpu: 3")
    };
    // By name, `web-1` and `web-2` would be placed first.
    let text = held(1)
        + &held(2)
        + &node("n-3", "big", "")
        + &pod("web-1", "web", "n-3", "", "")
        + &pod("web-2", "web", "n-3", "", "")
        + &pod("web-3", "web", "n-2", "", "")
        + &pod("web-4", "web", "n-1", "", "");
    let rendered = rendered(&text);
    let lines: Vec<&str> = rendered.lines().take(4).collect();
    // Held: 0.40 and a box for two pods, 0.60. Without holds 10 CPUs need a big and a box, 0.60.
    assert_eq!(
        lines,
        ["now 0.80, needed 0.60, held 0.00", "launch box: web-1 web-2", "move web-3 to n-2", "move web-4 to n-1"]
    );
}

#[test]
fn a_daemon_set_that_is_not_in_the_input_is_noted() {
    let pods = crate::owned_pod("agent-1", "agent", "n-1", "", "", "DaemonSet");
    let noted = |text: &str| {
        read(text).notes.into_iter().filter(|note| note.starts_with("DaemonSets")).collect::<Vec<String>>()
    };
    let note = "DaemonSets that have pods are not in the input: new nodes are planned without them: shop/agent";
    assert_eq!(noted(&(three_nodes() + &pods)), [note]);
    let object = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent, namespace: shop}\nspec: {selector: \
                  {matchLabels: {app: agent}}, template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: \
                  a}]}}}\n---\n";
    assert_eq!(noted(&(three_nodes() + &pods + object)), [""; 0]);
}
