//! Node requirements of volumes.

use model::VolumeAlternatives;

use crate::{pod, volumes};

const CLASSES: &str = "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: waits, annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}
provisioner: kubernetes.io/aws-ebs
volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{matchLabelExpressions: [{key: topology.ebs.csi.aws.com/zone, values: [us-east-1a, us-east-1b]}]}]
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: at-once}
provisioner: ebs.csi.aws.com
---
";

fn claim(name: &str, spec: &str) -> String {
    format!("apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n---\n")
}

fn bound(name: &str, volume: &str) -> String {
    claim(name, &format!("volumeName: {volume}")).replace(
        &format!("{{name: {name}}}"),
        &format!("{{name: {name}, annotations: {{pv.kubernetes.io/bind-completed: 'yes'}}}}"),
    )
}

/// A PersistentVolume with one node selector term for each element of `terms`.
fn volume(name: &str, source: &str, terms: &[&str]) -> String {
    let terms: Vec<String> = terms.iter().map(|term| format!("{{matchExpressions: [{term}]}}")).collect();
    format!(
        "apiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: {name}}}\nspec: {{{source}, nodeAffinity: {{required: {{nodeSelectorTerms: [{}]}}}}}}\n---\n",
        terms.join(", ")
    )
}

/// The volume requirements of a pod that mounts `claims`.
fn needs(claims: &[&str], objects: &str) -> VolumeAlternatives {
    let mounts: Vec<String> = claims
        .iter()
        .enumerate()
        .map(|(at, claim)| format!("{{name: v{at}, persistentVolumeClaim: {{claimName: {claim}}}}}"))
        .collect();
    volumes(&format!("{CLASSES}{objects}{}", pod("p", &format!("volumes: [{}]", mounts.join(", ")))))
}

fn alternatives(needs: &VolumeAlternatives) -> Vec<String> {
    needs.any_of.iter().map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")).collect()
}

fn blocked(claims: &[&str], objects: &str) -> String {
    needs(claims, objects).blocked.expect("blocked").to_string()
}

const CSI: &str = "csi: {driver: ebs.csi.aws.com, volumeHandle: vol-1}";

#[test]
fn a_bound_volume_is_where_it_is() {
    let zones = [
        "{key: topology.ebs.csi.aws.com/zone, operator: In, values: [us-east-1a]}",
        "{key: topology.kubernetes.io/zone, operator: In, values: [us-east-1b]}",
    ];
    let needs = needs(&["c"], &(bound("c", "pv") + &volume("pv", CSI, &zones)));
    assert_eq!(
        alternatives(&needs),
        ["topology.kubernetes.io/zone In [us-east-1a]", "topology.kubernetes.io/zone In [us-east-1b]"]
    );
    assert_eq!(needs.attachments, [("ebs.csi.aws.com".into(), "vol-1".into())]);
    assert_eq!(needs.blocked, None);
}

#[test]
fn an_unbound_claim_goes_where_its_class_allows() {
    let needs = needs(&["c"], &claim("c", ""));
    assert_eq!(alternatives(&needs), ["topology.kubernetes.io/zone In [us-east-1a, us-east-1b]"]);
    assert_eq!(needs.attachments, [("ebs.csi.aws.com".into(), "default/c".into())]);
}

#[test]
fn several_volumes_must_suit_one_node() {
    let zone = |zones: &str| format!("{{key: topology.kubernetes.io/zone, operator: In, values: [{zones}]}}");
    let objects = |second: &str| {
        bound("a", "pa")
            + &volume("pa", CSI, &[&zone("us-east-1a"), &zone("us-east-1b")])
            + &bound("b", "pb")
            + &volume("pb", CSI, &[&zone(second)])
    };
    // (a or b) and b is b. (a or b) and c is two contradictions, which are kept so that they can be
    // reported.
    assert_eq!(
        alternatives(&needs(&["a", "b"], &objects("us-east-1b"))),
        ["topology.kubernetes.io/zone In [us-east-1b]"]
    );
    assert_eq!(needs(&["a", "b"], &objects("us-east-1c")).any_of.len(), 1);
    assert_eq!(alternatives(&needs(&["a", "b"], &objects("us-east-1c"))), ["topology.kubernetes.io/zone DoesNotExist"]);
}

#[test]
fn claims_that_cannot_be_mounted_have_a_reason() {
    assert_eq!(blocked(&["none"], ""), "PersistentVolumeClaim/default/none is not in the input");
    assert!(blocked(&["c"], &claim("c", "storageClassName: at-once")).contains("StorageClass/at-once binds at once"));
    assert!(
        blocked(&["c"], &claim("c", "storageClassName: other"))
            .contains("StorageClass/other, which is not in the input")
    );
    assert!(blocked(&["c"], &claim("c", "storageClassName: ''")).contains("has an empty storageClassName"));
    assert!(blocked(&["c"], &claim("c", "volumeName: pv")).contains("is not bound to it yet"));
    assert!(blocked(&["c"], &bound("c", "pv")).contains("PersistentVolume/pv, which is not in the input"));
    // Its phase says that it is bound as well.
    let in_phase = claim("c", "volumeName: pv").replace("---", "status: {phase: Bound}\n---");
    assert!(blocked(&["c"], &in_phase).contains("PersistentVolume/pv, which is not in the input"));
    assert!(blocked(&["c"], &claim("c", "").replace("---", "status: {phase: Lost}\n---")).contains("lost its volume"));
}

#[test]
fn a_local_volume_constrains_the_host_while_the_node_exists() {
    let host = "{key: kubernetes.io/hostname, operator: In, values: [h]}";
    let objects = bound("c", "pv") + &volume("pv", "local: {path: /x}", &[host]);
    assert_eq!(alternatives(&needs(&["c"], &objects)), Vec::<String>::new());
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: h}\n---\n";
    assert_eq!(alternatives(&needs(&["c"], &(objects + node))), ["kubernetes.io/hostname In [h]"]);
}

#[test]
fn zone_labels_of_a_volume_bind_like_its_affinity() {
    let volume = "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: pv, labels: {failure-domain.beta.kubernetes.io/zone: us-east-1a__us-east-1b}}\nspec: {awsElasticBlockStore: {volumeID: vol-9}}\n---\n";
    let needs = needs(&["c"], &(bound("c", "pv") + volume));
    assert_eq!(alternatives(&needs), ["topology.kubernetes.io/zone In [us-east-1a, us-east-1b]"]);
    assert_eq!(needs.attachments, [("ebs.csi.aws.com".into(), "vol-9".into())]);
}

#[test]
fn an_ephemeral_volume_is_a_claim_of_its_own() {
    let text = format!(
        "{CLASSES}{}",
        pod(
            "p",
            "volumes: [{name: scratch, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: waits}}}}, {name: e, emptyDir: {}}]"
        )
    );
    assert_eq!(volumes(&text).attachments, [("ebs.csi.aws.com".into(), "default/p-scratch".into())]);
}
