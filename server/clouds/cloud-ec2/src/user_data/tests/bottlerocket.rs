use super::*;

const FAMILY: AmiFamily = AmiFamily::Bottlerocket;

const PLAIN: &str = r#"[settings.kubernetes]
api-server = "https://api.example"
cluster-certificate = "Q0E="
cluster-dns-ip = "10.100.0.10"
cluster-name = "demo"
max-pods = 29

[settings.kubernetes.node-labels]
"karpenter.sh/capacity-type" = "spot"
"karpenter.sh/do-not-sync-taints" = "true"
"karpenter.sh/nodepool" = "default"

[settings.kubernetes.node-taints]
"karpenter.sh/unregistered" = [":NoExecute"]
"#;

#[test]
fn a_node_without_settings_has_those_of_its_cluster() {
    for user_data in ["", "# nothing\r\n", "[settings]", "[settings.kubernetes]"] {
        assert_eq!(render(&with_user_data(FAMILY, user_data)).as_deref(), Ok(PLAIN), "{user_data:?}");
    }
    assert_eq!(render(&input(FAMILY)).as_deref(), Ok(PLAIN));
}

#[test]
fn all_settings_are_in_the_document() {
    let mut input = input(FAMILY);
    set_kubelet(&mut input);
    input.taints = vec![taint("a", "1", Effect::NoSchedule), taint("a", "2", Effect::NoExecute)];
    input.startup_taints = vec![taint("example.com/agent", "", Effect::PreferNoSchedule)];
    let expected = r#"[settings.kubernetes]
api-server = "https://api.example"
cluster-certificate = "Q0E="
cluster-dns-ip = "169.254.20.10"
cluster-name = "demo"
cpu-cfs-quota-enforced = false
eviction-max-pod-grace-period = 60
image-gc-high-threshold-percent = "85"
image-gc-low-threshold-percent = "80"
max-pods = 29

[settings.kubernetes.eviction-hard]
"memory.available" = "5%"
"nodefs.available" = "1Gi"

[settings.kubernetes.eviction-soft]
"memory.available" = "7.5%"

[settings.kubernetes.eviction-soft-grace-period]
"memory.available" = "1m30s"

[settings.kubernetes.kube-reserved]
ephemeral-storage = "1Gi"

[settings.kubernetes.node-labels]
"karpenter.sh/capacity-type" = "spot"
"karpenter.sh/do-not-sync-taints" = "true"
"karpenter.sh/nodepool" = "default"

[settings.kubernetes.node-taints]
a = ["1:NoSchedule", "2:NoExecute"]
"example.com/agent" = [":PreferNoSchedule"]
"karpenter.sh/unregistered" = [":NoExecute"]

[settings.kubernetes.system-reserved]
cpu = "100m"
memory = "200Mi"
pid = "1000"
"#;
    assert_eq!(render(&input).as_deref(), Ok(expected));
}

#[test]
fn settings_of_the_node_win_over_those_of_the_user() {
    let user_data = r#"
[settings.host-containers.admin]
enabled = true
[settings.kubernetes]
cluster-name = "other"
max-pods = 500
cpu-manager-policy = "static"
setting-of-tomorrow = [1, { a = "b" }]
eviction-hard = { "pid.available" = "1%" }
node-labels = { "karpenter.sh/nodepool" = "other", mine = "it's \"this\"" }
node-taints = { mine = ["x:NoSchedule"] }
"#;
    let expected = r#"[settings.host-containers.admin]
enabled = true

[settings.kubernetes]
api-server = "https://api.example"
cluster-certificate = "Q0E="
cluster-dns-ip = "10.100.0.10"
cluster-name = "demo"
cpu-manager-policy = "static"
max-pods = 29
setting-of-tomorrow = [1, { a = "b" }]

[settings.kubernetes.eviction-hard]
"pid.available" = "1%"

[settings.kubernetes.node-labels]
"karpenter.sh/capacity-type" = "spot"
"karpenter.sh/do-not-sync-taints" = "true"
"karpenter.sh/nodepool" = "default"
mine = """it's "this""""

[settings.kubernetes.node-taints]
"karpenter.sh/unregistered" = [":NoExecute"]
"#;
    assert_eq!(render(&with_user_data(FAMILY, user_data)).as_deref(), Ok(expected));
}

#[test]
fn local_disks_are_mounted_by_a_command() {
    let default = r#"["apiclient", "ephemeral-storage", "bind"]"#;
    let explicit = r#"["apiclient", "ephemeral-storage", "bind", "--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods"]"#;
    let cases = [
        (None, explicit),
        (Some("bottlerocket@latest"), explicit),
        (Some("1.45.9"), explicit),
        (Some("bottlerocket-aws-k8s-1.33-x86_64-v1.9.46-0d8a6d1c"), explicit),
        (Some("1.46.0"), default),
        (Some("bottlerocket@v1.46.0"), default),
        (Some("bottlerocket-aws-k8s-1.33-x86_64-v1.46.0-0d8a6d1c"), default),
        (Some("2.0.0"), default),
    ];
    for (version, bind) in cases {
        let own = "[settings.bootstrap-commands.000-mount-instance-storage]\nmode = \"off\"\n\
            [settings.bootstrap-commands.100-own]\nmode = \"once\"\n";
        let input = UserDataInput {
            instance_store_raid0: true,
            ami_version: version.map(Text::from),
            ..with_user_data(FAMILY, own)
        };
        let expected = format!(
            "[settings.bootstrap-commands.000-mount-instance-storage]\n\
             commands = [[\"apiclient\", \"ephemeral-storage\", \"init\"], {bind}]\nessential = true\nmode = \"always\"\n\n\
             [settings.bootstrap-commands.100-own]\nmode = \"once\"\n\n{PLAIN}"
        );
        assert_eq!(render(&input), Ok(expected), "{version:?}");
    }
}

#[test]
fn fields_without_a_setting_are_refused() {
    let mut density = input(FAMILY);
    density.kubelet.pods_per_core = Some(0);
    assert_eq!(
        render(&density).unwrap_err().to_string(),
        "spec.kubelet.podsPerCore is not supported by the family Bottlerocket: remove it, or choose another spec.amiFamily"
    );
    let mut dns = input(FAMILY);
    dns.kubelet_options.cluster_dns = vec!["10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap()];
    assert!(render(&dns).unwrap_err().to_string().starts_with("spec.kubelet.clusterDNS[1] is not supported"));
}

#[test]
fn settings_of_another_type_are_refused() {
    let cases = [
        ("settings = 1", "settings: found \"integer\", allowed: a table"),
        ("[settings]\nkubernetes = 'x'", "settings.kubernetes: found \"string\", allowed: a table"),
        ("[[settings.kubernetes]]", "settings.kubernetes: found \"a list with other values\", allowed: a table"),
        (
            "[settings.kubernetes]\nmax-pods = '5'",
            "settings.kubernetes.max-pods: found \"string\", allowed: an integer",
        ),
        (
            "[settings.kubernetes]\nnode-labels = 'x'",
            "settings.kubernetes.node-labels: found \"string\", allowed: a table of texts",
        ),
        (
            "[settings.kubernetes.node-labels]\nx = 1",
            "settings.kubernetes.node-labels: found \"a table with other values\", allowed: a table of texts",
        ),
        (
            "[settings.kubernetes.node-taints]\nx = [1]",
            "settings.kubernetes.node-taints: found \"a table with other values\", allowed: a table of lists of texts",
        ),
        (
            "[settings.kubernetes]\ncpu-cfs-quota-enforced = 'no'",
            "settings.kubernetes.cpu-cfs-quota-enforced: found \"string\", allowed: true or false",
        ),
        (
            "[settings.kubernetes]\nimage-gc-high-threshold-percent = 8.5",
            "settings.kubernetes.image-gc-high-threshold-percent: found \"float\", allowed: a text or an integer",
        ),
    ];
    for (user_data, message) in cases {
        let error = render(&with_user_data(FAMILY, user_data)).unwrap_err();
        assert_eq!(error.to_string(), format!("spec.userData: {message}"));
    }
    let raid =
        UserDataInput { instance_store_raid0: true, ..with_user_data(FAMILY, "[settings]\nbootstrap-commands = []") };
    assert!(render(&raid).unwrap_err().to_string().starts_with("spec.userData: settings.bootstrap-commands: found"));
}

#[test]
fn text_that_is_no_toml_is_refused_with_its_line() {
    let error = render(&with_user_data(FAMILY, "[settings]\nmotd = 'a'\n#!/bin/sh\necho 1\n")).unwrap_err();
    assert!(error.to_string().starts_with("spec.userData is not valid TOML: line 4: "), "{error}");
    let deep = [
        format!("settings{} = 1", ".a".repeat(100_000)),
        format!("[settings]\nx = {}", "[".repeat(100_000)),
        format!("[settings]\nx = {}", "{a=".repeat(100_000)),
        "[settings]\na = 1\na = 2".to_owned(),
    ];
    for text in deep {
        let error = render(&with_user_data(FAMILY, &text)).unwrap_err();
        assert!(matches!(error, UserDataError::Malformed { format: "TOML", .. }), "{error}");
    }
}
