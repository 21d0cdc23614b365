//! Reasons about the machine: labels, size, price, limits, readiness.

use std::sync::Arc;

use engine::model::labels::{ARCH, CAPACITY_TYPE, HOSTNAME, RESERVATION_ID, ZONE};
use engine::model::{
    CapacityType, DaemonSet, Effect, HostPort, Labels, MicroUsd, NotReady, Operator, Requirement, Reservation,
    Resources, Timestamp, VolumeAlternatives,
};
use engine::plan::ReasonCode;

use crate::world::{LARGE, SMALL, World, asks, near, pool, resources, selecting, taint};

#[test]
fn a_taint_is_named_and_tolerating_it_is_the_way_out() {
    let mut ml = pool("ml");
    ml.taints = vec![taint("dedicated", "ml", Effect::NoSchedule)];
    World::new()
        .pool(ml)
        .pod("web", asks(500, 1))
        .only()
        .because("ml", ReasonCode::Taints, "its taint dedicated=ml:NoSchedule is not tolerated")
        .fits_if(&["it tolerates taint dedicated=ml:NoSchedule of NodePool ml"]);
}

#[test]
fn a_label_that_the_pool_does_not_define_is_named_with_a_guess() {
    let mut general = pool("general");
    general.labels = Labels::from([("example.com/disktype".into(), "ssd".into())]);
    let told = World::new().pool(general).pod("web", selecting(asks(500, 1), "disktype", "ssd")).only();
    told.because(
        "general",
        ReasonCode::Requirements,
        "wants disktype In [ssd], but NodePool general does not define disktype; did you mean example.com/disktype?",
    )
    .fits_if(&["nodeSelector disktype=ssd is dropped", "NodePool general has disktype In [ssd]"]);
}

#[test]
fn a_pool_that_has_another_value_is_told_with_both_values() {
    let mut general = pool("general");
    general.requirements.add(Requirement::new(ZONE, Operator::In, ["b".into()]));
    let told = World::new().pool(general).pod("web", selecting(asks(500, 1), ZONE, "a")).only();
    told.because(
        "general",
        ReasonCode::Requirements,
        "wants topology.kubernetes.io/zone In [a], but NodePool general has topology.kubernetes.io/zone In [b]",
    )
    .fits_if(&[
        "nodeSelector topology.kubernetes.io/zone=a is dropped",
        "NodePool general has topology.kubernetes.io/zone In [a]",
    ]);
}

#[test]
fn a_mistyped_value_is_told_with_the_values_there_are() {
    let told = World::new().pool(pool("general")).pod("web", selecting(asks(500, 1), ARCH, "arm46")).only();
    // Both arm64 and amd64 have other digits than arm46, so no guess is made; the values themselves tell.
    told.because(
        "general",
        ReasonCode::Requirements,
        "wants kubernetes.io/arch In [arm46], but no instance type of the NodePool has it: they have amd64 and arm64",
    )
    .fits_if(&["nodeSelector kubernetes.io/arch=arm46 is dropped"]);
}

#[test]
fn the_nearest_type_is_named_with_what_it_misses() {
    // large has 7.91 cpu and 14Gi: 9 − 7.91 = 1.09 cpu are missing, memory is enough.
    World::new()
        .pool(pool("general"))
        .pod("big", asks(9000, 1))
        .only()
        .because(
            "general",
            ReasonCode::Resources,
            "asks for 9 cpu and 1Gi memory; the nearest of 3 types allowed, large, has 7.91 cpu free after DaemonSets: \
             1.09 cpu short",
        )
        .fits_if(&["cpu is at most 7.91"]);
}

#[test]
fn daemonsets_take_their_part_before_pods_come() {
    let mut world = World::new().pool(pool("general")).pod("agent", asks(110, 0));
    world.plan.unschedulable.clear();
    world.input.pods.clear();
    let daemon = DaemonSet { namespace: "kube-system".into(), name: "agent".into(), shape: 0, labels: 0 };
    world.input.daemons.push(daemon);
    // 7.91 − 0.11 = 7.8 cpu are free on large; 7.9 − 7.8 = 0.1 are missing.
    world.pod("big", asks(7900, 1)).only()
        .because(
            "general",
            ReasonCode::Resources,
            "asks for 7.9 cpu and 1Gi memory; the nearest of 3 types allowed, large, has 7.8 cpu free after DaemonSets: \
             100m cpu short",
        )
        .fits_if(&["cpu is at most 7.8"]);
}

#[test]
fn a_larger_type_that_labels_refuse_is_named_with_who_refuses_it() {
    let told = World::new().pool(pool("general")).pod("big", selecting(asks(5000, 1), ARCH, "arm64")).only();
    // arm has 3.9 cpu: 5 − 3.9 = 1.1 are missing; large would do but is amd64.
    told.because(
        "general",
        ReasonCode::Resources,
        "asks for 5 cpu and 1Gi memory; the only type allowed, arm, has 3.9 cpu free after DaemonSets: 1.1 cpu short; \
         large would be large enough, but the pod wants kubernetes.io/arch In [arm64]",
    )
    .fits_if(&["nodeSelector kubernetes.io/arch=arm64 is dropped", "cpu is at most 3.9"]);
}

#[test]
fn a_device_that_no_type_has_is_asked_for_in_vain() {
    let mut shape = asks(500, 1);
    shape.requests.set("nvidia.com/gpu", 1);
    let told = World::new().pool(pool("general")).pod("train", shape).only();
    assert_eq!(told.reasons[0].1, ReasonCode::Resources);
    assert!(told.reasons[0].2.contains("1 nvidia.com/gpu short"), "{}", told.reasons[0].2);
    told.fits_if(&["it asks for no nvidia.com/gpu"]);
}

#[test]
fn limits_are_judged_with_the_largest_option_of_planned_nodes() {
    let mut gpu = pool("gpu");
    gpu.limits = Resources::from_iter([("cpu", 10_000)]);
    // The planned node may become large (8 cpu): 2 of 10 are left. 3 cpu need arm (4): 8 + 4 = 12. Anti-affinity keeps the
    // pods apart.
    let mut second = asks(3000, 1);
    second.pod_anti_affinity = vec![near("first", HOSTNAME)];
    World::new().pool(gpu).pod("first", asks(1000, 1)).pod("second", second).buys(&[SMALL, LARGE], "a", &[0]).only()
        .because(
            "gpu",
            ReasonCode::Limits,
            "of its limit cpu 10 it uses 8 and has 2 left, but the smallest machine that would do, arm, has 4 (it has 0 \
             nodes and 1 planned)",
        )
        .fits_if(&["cpu is at most 1.9", "NodePool gpu's limit cpu is raised from 10 to at least 12"]);
}

#[test]
fn the_limit_on_nodes_counts_planned_nodes() {
    let mut general = pool("general");
    general.limits = Resources::from_iter([("nodes", 1)]);
    World::new()
        .pool(general)
        .pod("first", asks(7500, 1))
        .pod("second", asks(3000, 1))
        .buys(&[LARGE], "a", &[0])
        .only()
        .because("general", ReasonCode::Limits, "its limit of 1 node is reached: 1 exist or are planned")
        .fits_if(&["NodePool general's limit nodes is raised from 1 to at least 2"]);
}

#[test]
fn price_ceilings_are_told_with_the_price_that_would_do() {
    let mut general = pool("general");
    general.rules.max_node_price = Some(MicroUsd(30_000));
    // The cheapest that carries it is small on spot, at 0.04.
    World::new()
        .pool(general)
        .pod("web", asks(500, 1))
        .only()
        .because(
            "general",
            ReasonCode::NoOffering,
            "arm, large and small would do, but nothing is for sale: 8 offerings dearer than $0.03 per node per hour",
        )
        .fits_if(&["fleetwright.dev/max-node-price is raised to at least 0.04 on NodePool general"]);
}

#[test]
fn a_ceiling_that_leaves_only_small_machines_is_a_matter_of_size() {
    let mut general = pool("general");
    general.rules.max_node_price = Some(MicroUsd(110_000));
    let told = World::new().pool(general).pod("big", asks(5000, 1)).only();
    // small (1.9 cpu) is the only type at 0.11 or less; 5 − 1.9 = 3.1. large on spot costs 0.15.
    told.because(
        "general",
        ReasonCode::Resources,
        "asks for 5 cpu and 1Gi memory; the only type allowed, small, has 1.9 cpu free after DaemonSets: 3.1 cpu short; \
         larger machines exceed the NodePool's price or size ceilings",
    );
    told.fits_if(&[
        "cpu is at most 1.9",
        "fleetwright.dev/max-node-price is raised to at least 0.15 on NodePool general",
    ]);
}

#[test]
fn waiting_for_spot_names_the_time_left() {
    let mut general = pool("general");
    general.rules.spot_fallback_after_ms = Some(600_000);
    let mut world = World::new().pool(general).pod("web", selecting(asks(500, 1), ZONE, "b"));
    world.input.now = Timestamp(1_000_000);
    // Created 400 s before: 600 − 400 = 200 s are left. Spot is sold in a only.
    world.input.pods[0].created = Some(Timestamp(600_000));
    let told = world.only();
    assert_eq!(told.reasons[0].1, ReasonCode::NoOffering);
    let wait = "3 offerings on demand for which it waits another 3m20s (spot-fallback-after)";
    assert!(told.reasons[0].2.ends_with(wait), "{}", told.reasons[0].2);
    told.fits_if(&[
        "nodeSelector topology.kubernetes.io/zone=b is dropped",
        "it has waited another 3m20s for spot in NodePool general",
    ]);
}

#[test]
fn offerings_without_capacity_are_told_with_where_they_would_be() {
    let mut general = pool("general");
    let mut catalogue = crate::world::catalogue();
    for offering in catalogue.types.iter_mut().flat_map(|t| &mut t.offerings) {
        offering.available = false;
    }
    general.catalogue = Arc::new(catalogue);
    World::new()
        .pool(general)
        .pod("web", selecting(asks(500, 1), CAPACITY_TYPE, "spot"))
        .only()
        .because(
            "general",
            ReasonCode::NoOffering,
            "large and small would do, but nothing is for sale: 6 offerings of another capacity type \
             (karpenter.sh/capacity-type In [spot]); 2 offerings without capacity at present",
        )
        .fits_if(&["small can be launched in a (spot) again"]);
}

#[test]
fn min_values_are_told_with_what_is_left() {
    let mut general = pool("general");
    let key = "node.kubernetes.io/instance-type";
    general.requirements.add(Requirement::new(key, Operator::Exists, []).with_min_values(Some(2)));
    // Only large carries 5 cpu.
    World::new()
        .pool(general)
        .pod("big", asks(5000, 1))
        .only()
        .because(
            "general",
            ReasonCode::MinValues,
            &format!("only 1 different {key} are left to launch from, but minValues asks for 2"),
        )
        .fits_if(&[&format!("minValues of {key} in NodePool general is lowered from 2 to 1")]);
}

#[test]
fn volumes_elsewhere_are_a_matter_of_volumes() {
    let zone_c = Requirement::new(ZONE, Operator::In, ["c".into()]);
    let volumes = VolumeAlternatives { any_of: vec![[zone_c].into_iter().collect()], ..VolumeAlternatives::default() };
    World::new().pool(pool("general")).volumes(volumes).pod("db", asks(500, 1)).only()
        .because(
            "general",
            ReasonCode::Volumes,
            "its volumes need topology.kubernetes.io/zone In [c], where NodePool general has nothing for sale that would do",
        )
        .fits_if(&["its volumes are not bound to their zone or node"]);
}

#[test]
fn a_claim_that_is_missing_is_nothing_that_a_pool_can_change() {
    let volumes =
        VolumeAlternatives { blocked: Some("claim default/data is missing".into()), ..VolumeAlternatives::default() };
    let told = World::new().pool(pool("general")).volumes(volumes).pod("db", asks(500, 1)).only();
    told.because("", ReasonCode::Volumes, "claim default/data is missing").fits_if(&[]);
    assert_eq!(told.reasons.len(), 1);
}

#[test]
fn a_port_that_a_daemonset_takes_is_told() {
    let port = HostPort { ip: "".into(), protocol: "TCP".into(), port: 80 };
    let mut proxy = asks(10, 0);
    proxy.host_ports = vec![port.clone()];
    let mut web = asks(500, 1);
    web.host_ports = vec![port];
    let mut world = World::new().pool(pool("general")).pod("proxy", proxy);
    world.plan.unschedulable.clear();
    world.input.pods.clear();
    let daemon = DaemonSet { namespace: "kube-system".into(), name: "proxy".into(), shape: 0, labels: 0 };
    world.input.daemons.push(daemon);
    world
        .pod("web", web)
        .only()
        .because(
            "general",
            ReasonCode::HostPorts,
            "host port 80/TCP is taken on every machine that would do by the DaemonSet kube-system/proxy",
        )
        .fits_if(&["host port 80/TCP is dropped"]);
}

#[test]
fn pools_that_are_not_ready_say_so() {
    let (mut one, mut two) = (pool("one"), pool("two"));
    one.not_ready = Some(NotReady::NodeClass("it does not exist".into()));
    two.not_ready = Some(NotReady::NodePool("it is being deleted".into()));
    World::new()
        .pool(one)
        .pool(two)
        .pod("web", asks(500, 1))
        .only()
        .because("one", ReasonCode::NodeClassNotReady, "EC2NodeClass default: it does not exist")
        .because("two", ReasonCode::NodePoolNotReady, "NodePool two: it is being deleted")
        .fits_if(&["EC2NodeClass default becomes ready", "NodePool two becomes ready"]);
}

#[test]
fn without_a_pool_the_nearest_node_is_told() {
    // 2 − 1.8 = 0.2 cpu are missing on the node.
    World::new()
        .node("n1", "a", resources(1800, 8 << 30))
        .pod("web", asks(2000, 1))
        .only()
        .because("", ReasonCode::NoNodePool, "there is no NodePool, and no existing node takes it")
        .because("", ReasonCode::Resources, "the nearest existing node, n1, misses only 200m cpu (1.8 left)")
        .fits_if(&["cpu is at most 1.8"]);
}

#[test]
fn static_pools_are_not_thought_of() {
    let mut fixed = pool("fixed");
    fixed.replicas = Some(3);
    let told = World::new().pool(fixed).pod("web", asks(500, 1)).only();
    assert_eq!(told.reasons.len(), 1);
    assert_eq!(told.reasons[0].1, ReasonCode::NoNodePool);
}

#[test]
fn a_share_of_spot_that_is_used_up_is_a_limit() {
    let mut general = pool("general");
    general.rules.spot_max_percent = Some(50);
    // The pool runs nothing yet: any spot node would be 100 % of it.
    World::new()
        .pool(general)
        .pod("web", selecting(asks(500, 1), CAPACITY_TYPE, "spot"))
        .only()
        .because(
            "general",
            ReasonCode::Limits,
            "only spot would do, and the NodePool keeps at most 50 % of its vCPUs on spot",
        )
        .fits_if(&[
            "nodeSelector karpenter.sh/capacity-type=spot is dropped",
            "NodePool general may run a larger share on spot (spot-max-percent, on-demand-min-nodes)",
        ]);
}

#[test]
fn volumes_are_counted_against_what_new_machines_attach() {
    let mut general = pool("general");
    let mut catalogue = crate::world::catalogue();
    for instance in &mut catalogue.types {
        instance.allocatable.set("attachable-volumes-ebs", 1);
    }
    general.catalogue = Arc::new(catalogue);
    let attachments = vec![("ebs".into(), "one".into()), ("ebs".into(), "two".into())];
    let volumes = VolumeAlternatives { attachments, ..VolumeAlternatives::default() };
    World::new()
        .pool(general)
        .volumes(volumes)
        .pod("db", asks(500, 1))
        .only()
        .because(
            "general",
            ReasonCode::Volumes,
            "attaches 2 volumes of ebs, more than any type that would do; small attaches 1",
        )
        .fits_if(&["it attaches at most 1 volume of ebs"]);
}

#[test]
fn a_used_up_reservation_is_no_offering() {
    let mut general = pool("general");
    let mut catalogue = crate::world::catalogue();
    catalogue.offering_keys = vec![RESERVATION_ID.into()];
    let mut reserved = catalogue.types[2].offerings[0].clone();
    reserved.capacity_type = CapacityType::Reserved;
    reserved.price = MicroUsd(0);
    reserved.reservation = Some(Reservation { id: "cr-1".into(), remaining: 1 });
    reserved.labels = Labels::from([(RESERVATION_ID.into(), "cr-1".into())]);
    catalogue.types[2].offerings.push(reserved);
    general.catalogue = Arc::new(catalogue);
    let shape = selecting(asks(1500, 1), RESERVATION_ID, "cr-1");
    let mut world = World::new().pool(general).pods(2, "web", shape).buys(&[SMALL], "a", &[0]);
    world.plan.nodes[0].capacity_type = CapacityType::Reserved;
    world.plan.nodes[0].reservation = Some("cr-1".into());
    // None of the 2 + 3 + 3 = 8 ordinary offerings carries the reservation's label; its own machine is planned for the first pod, and
    // 1.9 − 1.5 = 0.4 cpu is left there.
    world
        .only()
        .because(
            "general",
            ReasonCode::NoOffering,
            "small would do, but nothing is for sale: 8 offerings with other labels; 1 offering whose reservation is used up",
        )
        .fits_if(&["nodeSelector karpenter.k8s.aws/capacity-reservation-id=cr-1 is dropped"]);
}

#[test]
fn cordoned_and_tainted_nodes_are_no_near_miss() {
    let mut world = World::new()
        .node("cordoned", "a", resources(1900, 8 << 30))
        .node("tainted", "a", resources(1900, 8 << 30))
        .pod("web", asks(2000, 1));
    world.input.nodes[0].unschedulable = true;
    world.input.nodes[1].taints = vec![taint("team", "x", Effect::NoSchedule)];
    let told = world.only();
    assert_eq!(told.reasons.len(), 1, "{:?}", told.reasons);
    told.fits_if(&[]);
}
