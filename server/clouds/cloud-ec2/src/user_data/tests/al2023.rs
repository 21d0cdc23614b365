use super::*;

const FAMILY: AmiFamily = AmiFamily::Al2023;

/// The NodeConfig of [`input`] as the last part.
const NODE_CONFIG: &str = r#"Content-Type: application/node.eks.aws

apiVersion: "node.eks.aws/v1alpha1"
kind: "NodeConfig"
spec:
  cluster:
    apiServerEndpoint: "https://api.example"
    certificateAuthority: "Q0E="
    cidr: "10.100.0.0/16"
    name: "demo"
  kubelet:
    config:
      clusterDNS:
      - "10.100.0.10"
      maxPods: 29
      registerWithTaints:
      - effect: "NoExecute"
        key: "karpenter.sh/unregistered"
    flags:
    - "--node-labels=\"karpenter.sh/capacity-type=spot,karpenter.sh/do-not-sync-taints=true,karpenter.sh/nodepool=default\""
"#;

/// The document with `parts` of the user, each from its headers to the line feed before the next
/// boundary.
fn document(boundary: &str, parts: &[&str]) -> String {
    let parts: String = parts.iter().chain([&NODE_CONFIG]).map(|part| format!("--{boundary}\n{part}")).collect();
    format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{boundary}\"\n\n{parts}--{boundary}--\n")
}

const SCRIPT: &str = "Content-Type: text/x-shellscript; charset=\"us-ascii\"\n\n";

#[test]
fn a_node_without_settings_has_one_part() {
    assert_eq!(render(&input(FAMILY)), Ok(document("//", &[])));
    for blank in ["", " \r\n\t\n"] {
        assert_eq!(render(&with_user_data(FAMILY, blank)), Ok(document("//", &[])), "{blank:?}");
    }
}

#[test]
fn all_settings_are_in_the_node_config() {
    let mut input = input(FAMILY);
    set_kubelet(&mut input);
    input.kubelet.pods_per_core = Some(4);
    input.instance_store_raid0 = true;
    input.taints = vec![taint("example.com/gpu", "yes", Effect::NoSchedule)];
    input.startup_taints = vec![taint("example.com/agent", "", Effect::PreferNoSchedule)];
    let expected = r#"MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="//"

--//
Content-Type: application/node.eks.aws

apiVersion: "node.eks.aws/v1alpha1"
kind: "NodeConfig"
spec:
  cluster:
    apiServerEndpoint: "https://api.example"
    certificateAuthority: "Q0E="
    cidr: "10.100.0.0/16"
    name: "demo"
  instance:
    localStorage:
      strategy: "RAID0"
  kubelet:
    config:
      clusterDNS:
      - "169.254.20.10"
      cpuCFSQuota: false
      evictionHard:
        memory.available: "5%"
        nodefs.available: "1Gi"
      evictionMaxPodGracePeriod: 60
      evictionSoft:
        memory.available: "7.5%"
      evictionSoftGracePeriod:
        memory.available: "1m30s"
      imageGCHighThresholdPercent: 85
      imageGCLowThresholdPercent: 80
      kubeReserved:
        ephemeral-storage: "1Gi"
      maxPods: 29
      podsPerCore: 4
      registerWithTaints:
      - effect: "PreferNoSchedule"
        key: "example.com/agent"
      - effect: "NoSchedule"
        key: "example.com/gpu"
        value: "yes"
      - effect: "NoExecute"
        key: "karpenter.sh/unregistered"
      systemReserved:
        cpu: "100m"
        memory: "200Mi"
        pid: "1000"
    flags:
    - "--node-labels=\"karpenter.sh/capacity-type=spot,karpenter.sh/do-not-sync-taints=true,karpenter.sh/nodepool=default\""
--//--
"#;
    assert_eq!(render(&input).as_deref(), Ok(expected));
}

#[test]
fn a_script_precedes_the_node_config() {
    let user_data = "#!/bin/bash\r\necho 1\r\n";
    let part = format!("{SCRIPT}#!/bin/bash\necho 1\n\n");
    assert_eq!(render(&with_user_data(FAMILY, user_data)), Ok(document("//", &[&part])));
    let marked = format!("\u{feff}{user_data}");
    assert_eq!(render(&with_user_data(FAMILY, &marked)), Ok(document("//", &[&part])));
}

#[test]
fn a_node_config_of_the_user_is_a_part_of_its_type() {
    let user_data = "# ours\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  featureGates: {A: true}\n";
    let part = format!("Content-Type: application/node.eks.aws\n\n{user_data}\n");
    assert_eq!(render(&with_user_data(FAMILY, user_data)), Ok(document("//", &[&part])));
}

#[test]
fn a_script_that_is_also_a_yaml_mapping_stays_a_script() {
    for script in ["echo \"a: b\"", "#!/bin/sh\nkind: NodeConfig", "#!/bin/sh\n# nothing", "a: 1\n---\nb: 2", "- a"] {
        let part = format!("{SCRIPT}{script}\n");
        assert_eq!(render(&with_user_data(FAMILY, script)), Ok(document("//", &[&part])), "{script}");
    }
}

#[test]
fn a_node_config_that_nodeadm_could_not_read_is_refused() {
    let broken = render(&with_user_data(FAMILY, "kind: NodeConfig\nspec: {a\n")).unwrap_err();
    let message = broken.to_string();
    assert!(message.starts_with("spec.userData is not valid YAML: "), "{message}");
    assert!(message.ends_with("(a script begins with #!)"), "{message}");
    let two = render(&with_user_data(FAMILY, "kind: NodeConfig\n---\nkind: NodeConfig\n")).unwrap_err();
    assert_eq!(
        two.to_string(),
        "spec.userData is not valid YAML: nodeadm reads one document; write several NodeConfigs as parts of a MIME document"
    );
}

#[test]
fn parts_of_a_mime_document_are_kept() {
    let user_data = "MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"B\"\r\n\r\npreamble\r\n--B\r\n\
        Content-Type: text/cloud-config\r\nContent-Transfer-Encoding: base64\r\n\r\nYTogMQ==\r\n--B  \r\n\r\n\
        no headers\r\n\r\n--Bx\r\n--B--\r\nepilogue";
    let first = "Content-Type: text/cloud-config\nContent-Transfer-Encoding: base64\n\nYTogMQ==\n";
    let second = "\nno headers\n\n--Bx\n";
    assert_eq!(render(&with_user_data(FAMILY, user_data)), Ok(document("//", &[first, second])));
}

#[test]
fn a_boundary_in_a_part_is_not_the_boundary_of_the_document() {
    // Without another boundary, the NodeConfig would be behind the end of the document.
    let cases = [
        ("#!/bin/sh\n--//--\necho 1", "//1"),
        ("#!/bin/sh\n--//\n--//1x\n--//21\n", "//3"),
        // Its two lines are one without the carriage return.
        ("#!/bin/sh\n--\r//--\n", "//1"),
    ];
    for (script, boundary) in cases {
        let part = format!("{SCRIPT}{}\n", script.replace('\r', ""));
        assert_eq!(render(&with_user_data(FAMILY, script)), Ok(document(boundary, &[&part])));
    }
    let header = "Content-Type: multipart/mixed; boundary=B\n\n--B\n--//: 1\n\ntext\n--B--";
    assert_eq!(render(&with_user_data(FAMILY, header)), Ok(document("//1", &["--//: 1\n\ntext\n"])));
}

#[test]
fn the_service_cidr_is_required() {
    for absent in [None, Some("".into())] {
        let mut input = input(FAMILY);
        Arc::make_mut(&mut input.cluster).service_cidr = absent;
        assert_eq!(
            render(&input).unwrap_err().to_string(),
            "the service CIDR of the cluster is missing, and AL2023 nodes cannot join without it: \
             check that the agent may read it, set its cluster.service-cidr, or use another spec.amiFamily"
        );
    }
    for (cidr, is_valid) in [("fd00::/108", true), ("10.100.0.0", false), ("10.100.0.0/33", false), ("x/16", false)] {
        let mut input = input(FAMILY);
        Arc::make_mut(&mut input.cluster).service_cidr = Some(cidr.into());
        assert_eq!(render(&input).is_ok(), is_valid, "{cidr}");
    }
}

#[test]
fn no_text_of_the_cluster_ends_its_line() {
    let mut input = input(FAMILY);
    input.cluster_name = ClusterName::from("a\"b\\c\n--//--\u{e9}\u{1f600}\u{7f}");
    let text = render(&input).unwrap();
    assert!(text.contains("\n    name: \"a\\\"b\\\\c\\n--//--\\u00E9\\U0001F600\\u007F\"\n"), "{text}");
}

#[test]
fn yaml_that_is_expensive_to_read_is_no_node_config() {
    let aliases: String =
        (1..9).map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 9].join(","))).collect();
    let expensive = [
        format!("a0: &a0 [x]\n{aliases}kind: NodeConfig\n"),
        format!("kind: NodeConfig\nx: {}", "[".repeat(16_000)),
        format!("kind: NodeConfig\nx: {}{}", "[".repeat(8_000), "]".repeat(8_000)),
        format!("kind: NodeConfig\nx: {}", "{a: ".repeat(4_000)),
    ];
    for text in expensive {
        let error = render(&with_user_data(FAMILY, &text)).unwrap_err();
        assert!(matches!(error, UserDataError::Malformed { format: "YAML", .. }), "{error}");
    }
}
