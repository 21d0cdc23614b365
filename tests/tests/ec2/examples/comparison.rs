//! Compares a launch with what is expected of it.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use simulated_ec2::{AccountSettings, TypeRow};

use super::expected::{Disk, ExpectedLaunch, Image, Types, UserData};
use super::launch::{Launch, Parameters, below, tags, user_data};

/// What all examples of a run share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expectation<'a> {
    pub(super) cluster: &'a str,
    pub(super) account: &'a AccountSettings,
    pub(super) launch: &'a ExpectedLaunch,
    /// `spec.userData` of the example.
    pub(super) own_user_data: &'a str,
    /// `status.instanceProfile` of its EC2NodeClass.
    pub(super) profile: &'a str,
}

/// The differences between what was seen and what is expected.
#[derive(Debug, Default)]
pub(super) struct Differences(Vec<String>);

impl Differences {
    fn compare<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, seen: T, expected: T) {
        if seen != expected {
            self.0.push(format!("{what} is {seen:?}, expected {expected:?}"));
        }
    }

    fn require(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(what());
        }
    }

    pub(super) fn into_texts(self) -> Vec<String> {
        self.0
    }
}

impl Expectation<'_> {
    pub(super) fn compare(&self, seen: &Launch) -> Differences {
        let mut found = Differences::default();
        self.compare_fleet(seen, &mut found);
        self.compare_types(seen, &mut found);
        for template in &seen.templates {
            self.compare_fields(template, &mut found);
            self.compare_tags("the launch template", tags(template, "TagSpecification."), &self.tagged(), &mut found);
            found.compare("BlockDeviceMapping", disks(template), expected_disks(self.launch.disks));
            let text = user_data(template);
            let compared = match self.launch.user_data {
                UserData::NodeConfig(parts) => self.compare_node_config(&text, parts),
                UserData::Settings(lines) => self.compare_settings(&text, lines),
                UserData::Verbatim if text == self.own_user_data => Ok(()),
                UserData::Verbatim => Err(format!("it is not that of the example: {text}")),
            };
            found.0.extend(compared.err().map(|why| format!("UserData: {why}")));
        }
        found
    }

    fn compare_fleet(&self, seen: &Launch, found: &mut Differences) {
        let field = |name: &str| seen.fleet.get(name).map(String::as_str);
        let capacity_type = self.launch.capacity_type;
        let (strategy, value) = match capacity_type {
            "spot" => ("SpotOptions.AllocationStrategy", "price-capacity-optimized"),
            _ => ("OnDemandOptions.AllocationStrategy", "lowest-price"),
        };
        for (name, value) in [
            ("Type", "instant"),
            ("TargetCapacitySpecification.TotalTargetCapacity", "1"),
            ("TargetCapacitySpecification.DefaultTargetCapacityType", capacity_type),
            (strategy, value),
        ] {
            found.compare(name, field(name), Some(value));
        }
        found.compare("Context", field("Context"), None);
        self.compare_tags("the fleet", tags(&seen.fleet, "TagSpecification."), &["fleet", "instance", "volume"], found);
        for option in &seen.overrides {
            let subnet = self.account.subnets.iter().find(|subnet| Some(&subnet.zone) == option.zone.as_ref());
            found.compare("SubnetId", option.subnet.as_ref(), subnet.map(|subnet| &subnet.id));
            found.compare("ImageId of an override", option.image.clone(), self.image());
        }
    }

    fn image(&self) -> Option<String> {
        match self.launch.image {
            Image::Parameter(name) => self.account.parameters.get(name).cloned(),
            Image::Id(id) => Some(id.to_owned()),
        }
    }

    fn compare_types(&self, seen: &Launch, found: &mut Differences) {
        let types = seen.instance_types();
        for name in &types {
            let row =
                self.account.catalogue.types.iter().find(|row| row.get("name").map(String::as_str) == Some(*name));
            let fits = row.is_some_and(|row| fits(self.launch.types, name, row));
            found.require(fits, || format!("the NodePool does not allow {name}"));
        }
        let distinct = |part: fn(&str) -> &str| types.iter().map(|name| part(name)).collect::<BTreeSet<_>>().len();
        let (categories, families, all) = self.launch.types.at_least;
        let counts = (distinct(category), distinct(family), types.len());
        let enough = counts.0 >= categories && counts.1 >= families && counts.2 >= all;
        found
            .require(enough, || format!("{counts:?} categories, families and types, expected {:?}", self.launch.types));
    }

    /// All fields of the template but disks, tags and user data.
    fn compare_fields(&self, template: &Parameters, found: &mut Differences) {
        let group = self.account.security_groups.iter().find(|group| group.name.ends_with("-nodes"));
        let mut expected = Parameters::new();
        for (name, value) in [
            ("IamInstanceProfile.Name", self.profile),
            ("Monitoring.Enabled", "false"),
            ("MetadataOptions.HttpEndpoint", "enabled"),
            ("MetadataOptions.HttpProtocolIpv6", "disabled"),
            ("MetadataOptions.HttpPutResponseHopLimit", "1"),
            ("MetadataOptions.HttpTokens", "required"),
            ("MetadataOptions.InstanceMetadataTags", "disabled"),
            ("NetworkInterface.1.DeviceIndex", "0"),
            ("NetworkInterface.1.SecurityGroupId.1", group.map_or("", |group| &group.id)),
            ("Placement.Tenancy", "default"),
            ("CapacityReservationSpecification.CapacityReservationPreference", "none"),
        ] {
            expected.insert(name.to_owned(), value.to_owned());
        }
        expected.extend(self.image().map(|image| ("ImageId".to_owned(), image)));
        let apart = ["BlockDeviceMapping.", "TagSpecification.", "UserData"];
        let mut seen = template.clone();
        seen.retain(|name, _| !apart.iter().any(|prefix| name.starts_with(prefix)));
        for name in seen.keys().chain(expected.keys()).collect::<BTreeSet<_>>() {
            found.compare(name, seen.get(name), expected.get(name));
        }
    }

    fn tagged(&self) -> Vec<&'static str> {
        let spot = (self.launch.capacity_type == "spot").then_some("spot-instances-request");
        std::iter::once("network-interface").chain(spot).collect()
    }

    /// Karpenter's tags but `karpenter.k8s.aws/ec2nodeclass`, by which a Karpenter in the same cluster would take the
    /// instance for its own; others are below our domain.
    fn compare_tags(
        &self,
        of: &str,
        seen: std::collections::BTreeMap<String, Parameters>,
        resources: &[&str],
        found: &mut Differences,
    ) {
        found.compare(
            &format!("tagged by {of}"),
            seen.keys().map(String::as_str).collect::<Vec<_>>(),
            resources.to_vec(),
        );
        let expected = Parameters::from([
            (format!("kubernetes.io/cluster/{}", self.cluster), "owned".to_owned()),
            ("eks:eks-cluster-name".to_owned(), self.cluster.to_owned()),
            ("karpenter.sh/nodepool".to_owned(), self.launch.pool.to_owned()),
        ]);
        for (resource, mut tags) in seen {
            found.compare(
                "tag of the class",
                tags.get("fleetwright.dev/nodeclass").cloned(),
                Some(self.launch.class.to_owned()),
            );
            tags.retain(|key, _| !key.starts_with("fleetwright.dev/"));
            found.compare(&format!("tags of {resource}"), tags, expected.clone());
        }
    }

    /// Labels that the kubelet sets: those of the NodeClaim outside of Kubernetes' domains, by name.
    fn labels(&self) -> Vec<String> {
        vec![
            format!("karpenter.k8s.aws/ec2nodeclass={}", self.launch.class),
            format!("karpenter.sh/capacity-type={}", self.launch.capacity_type),
            "karpenter.sh/do-not-sync-taints=true".to_owned(),
            format!("karpenter.sh/nodepool={}", self.launch.pool),
        ]
    }

    /// A MIME document whose parts are those of the user, then the NodeConfig of the node.
    fn compare_node_config(&self, text: &str, own: &[(&str, &str)]) -> Result<(), String> {
        let parts = mime_parts(text)?;
        let (last, first) = parts.split_last().ok_or("it has no part")?;
        if first.len() != own.len() {
            return Err(format!("{} parts before the NodeConfig, expected {}: {text}", first.len(), own.len()));
        }
        for ((content_type, content), (own_type, line)) in first.iter().zip(own) {
            if content_type != own_type || !content.lines().any(|found| found == *line) {
                return Err(format!("no part {own_type:?} with {line:?}: {text}"));
            }
        }
        let (content_type, content) = last;
        let config: Value = serde_saphyr::from_str(content).map_err(|error| format!("{error}: {content}"))?;
        let spec = &config["spec"];
        let local_storage = self.launch.local_storage.map_or(Value::Null, Into::into);
        let expected = [
            (content_type.as_str().into(), json!("application/node.eks.aws")),
            (config["kind"].clone(), json!("NodeConfig")),
            (spec["cluster"]["name"].clone(), json!(self.cluster)),
            (spec["cluster"]["apiServerEndpoint"].clone(), json!("https://simulated.invalid")),
            (spec["cluster"]["cidr"].clone(), json!("10.100.0.0/16")),
            (spec["instance"]["localStorage"]["strategy"].clone(), local_storage),
            (spec["kubelet"]["config"]["clusterDNS"].clone(), json!(["10.100.0.10"])),
            (
                spec["kubelet"]["config"]["registerWithTaints"].clone(),
                json!([{ "key": "karpenter.sh/unregistered", "effect": "NoExecute" }]),
            ),
            (json!(own_labels(&spec["kubelet"]["flags"])), json!(self.labels())),
        ];
        let different = expected.iter().find(|(found, expected)| found != expected);
        let max_pods = spec["kubelet"]["config"]["maxPods"].as_u64();
        match different {
            Some((found, expected)) => Err(format!("{found} instead of {expected}: {content}")),
            None if max_pods.is_none_or(|pods| pods == 0) => Err(format!("no maxPods: {content}")),
            None => Ok(()),
        }
    }

    /// Bottlerocket's settings: the lines of the user, and those of the node.
    fn compare_settings(&self, text: &str, own: &[&str]) -> Result<(), String> {
        let cluster = format!("cluster-name = \"{}\"", self.cluster);
        let labels = self.labels();
        let labels = labels.iter().filter_map(|label| label.split_once('='));
        let labels: Vec<String> = labels.map(|(key, value)| format!("\"{key}\" = \"{value}\"")).collect();
        let node = [
            "[settings.kubernetes]",
            &cluster,
            "api-server = \"https://simulated.invalid\"",
            "cluster-dns-ip = \"10.100.0.10\"",
            "[settings.kubernetes.node-labels]",
            "[settings.kubernetes.node-taints]",
            "\"karpenter.sh/unregistered\" = [\":NoExecute\"]",
        ];
        let expected = own.iter().copied().chain(node).chain(labels.iter().map(String::as_str));
        let missing = expected.into_iter().find(|line| !text.lines().any(|found| found == *line));
        missing.map_or(Ok(()), |line| Err(format!("{line:?} is missing: {text}")))
    }
}

/// The labels of the flag `--node-labels`. Those that all instance types of the launch share are set by the kubelet here,
/// and at the registration of the Node by Karpenter: they are left out.
fn own_labels(flags: &Value) -> Vec<String> {
    let flag = flags.as_array().filter(|flags| flags.len() == 1).and_then(|flags| flags[0].as_str());
    let labels = flag.and_then(|flag| flag.strip_prefix("--node-labels=\"")?.strip_suffix('"')).unwrap_or_default();
    let own = labels.split(',').filter(|label| !label.starts_with("karpenter.k8s.aws/instance-"));
    own.map(str::to_owned).collect()
}

/// Content type and content of each part.
fn mime_parts(text: &str) -> Result<Vec<(String, String)>, String> {
    let (head, body) = text.split_once("\n\n").ok_or("it has no header")?;
    let boundary = head.split("boundary=\"").nth(1).and_then(|rest| rest.split('"').next()).ok_or("no boundary")?;
    let (body, _) = body.split_once(&format!("\n--{boundary}--")).ok_or("the document does not end")?;
    let body = format!("\n{body}");
    let part = |part: &str| {
        let (headers, content) = part.trim_start_matches('\n').split_once("\n\n").unwrap_or((part, ""));
        let content_type = headers.lines().find_map(|line| line.strip_prefix("Content-Type: ")).unwrap_or_default();
        (content_type.to_owned(), content.to_owned())
    };
    Ok(body.split(&format!("\n--{boundary}\n")).skip(1).map(part).collect())
}

/// The disks of a template: device name and the parameters below `Ebs`.
fn disks(template: &Parameters) -> Vec<(String, Parameters)> {
    let all = below(template, "BlockDeviceMapping.");
    let numbers: BTreeSet<u32> = all.keys().filter_map(|key| key.split('.').next()?.parse().ok()).collect();
    let disk = |number: u32| {
        let device = all.get(&format!("{number}.DeviceName")).cloned().unwrap_or_default();
        (device, below(&all, &format!("{number}.Ebs.")))
    };
    numbers.into_iter().map(disk).collect()
}

fn expected_disks(disks: &[Disk]) -> Vec<(String, Parameters)> {
    let disk = |(device, size, encrypted, deleted): &Disk| {
        let mut ebs = Parameters::from([
            ("VolumeSize".to_owned(), size.to_string()),
            ("VolumeType".to_owned(), "gp3".to_owned()),
        ]);
        let flags = [("Encrypted", *encrypted), ("DeleteOnTermination", *deleted)];
        ebs.extend(flags.iter().filter(|(_, set)| *set).map(|(name, _)| ((*name).to_owned(), "true".to_owned())));
        ((*device).to_owned(), ebs)
    };
    disks.iter().map(disk).collect()
}

fn category(name: &str) -> &str {
    name.split(|letter: char| !letter.is_ascii_lowercase()).next().unwrap_or_default()
}

fn family(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}

fn fits(types: Types, name: &str, row: &TypeRow) -> bool {
    let number = |column: &str| row.get(column).and_then(|text| text.parse::<i64>().ok());
    let digits: String = name.chars().skip_while(char::is_ascii_lowercase).take_while(char::is_ascii_digit).collect();
    let generation = digits.parse::<u32>().unwrap_or(0);
    (types.categories.is_empty() || types.categories.contains(&category(name)))
        && generation >= types.generation_above + u32::from(types.generation_above > 0)
        && row.get("arch").map(String::as_str) == Some(types.architecture)
        && number("vcpu").is_some_and(|vcpus| vcpus > types.vcpus_above)
        && number("memoryMib").is_some_and(|memory| memory > types.memory_mib_above)
        && types.nvme_above.is_none_or(|least| number("nvmeGb").is_some_and(|nvme| nvme > least))
}
