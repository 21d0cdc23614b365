//! The examples of Karpenter's AWS provider, applied as they are: agent, server, plan and launch through the AWS SDK, on
//! the simulated EC2. What the endpoint saw is compared with what Karpenter's documentation says; what is not supported
//! is refused by name. The files come from Karpenter's Go module when the test runs.

pub(crate) mod cluster;
mod comparison;
mod expected;
mod launch;
mod module;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use e2e::{Program, RunningProcess};
use fleetwright_proto::v1::ObjectKind;
use serde_json::Value;
use simulated_ec2::{AccountSettings, Image, SimulatedEc2};

use self::cluster::ExampleCluster;
use self::comparison::Expectation;
use self::expected::{AL2023_PINNED, EXAMPLES, Outcome};
use self::launch::Launch;
use self::module::Example;
use crate::{PROGRAM, serve_endpoint, with_simulated_credentials};

/// Value of `CLUSTER_NAME` in the examples.
const CLUSTER_NAME: &str = "examples";

/// For all clusters together, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(240);

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// What the examples refer to: two images by id, and an image of the version that two of them pin.
fn account() -> AccountSettings {
    let mut settings = AccountSettings::new("us-east-1", CLUSTER_NAME);
    let latest = settings.images.iter().find(|image| image.architecture == "x86_64").unwrap().clone();
    let image = |id: &str, architecture: &str| Image {
        id: id.to_owned(),
        name: format!("example-{id}"),
        architecture: architecture.to_owned(),
        ..latest.clone()
    };
    let pinned = image("ami-0123456789abcdef0", "x86_64");
    settings.parameters.insert(AL2023_PINNED.to_owned(), pinned.id.clone());
    settings.images.extend([image("ami-123", "x86_64"), image("ami-456", "arm64"), pinned]);
    settings
}

/// The endpoint and a server on it.
struct TestBed {
    ec2: SimulatedEc2,
    account: AccountSettings,
    _server: RunningProcess,
    grpc: String,
}

impl TestBed {
    async fn start() -> Self {
        let account = account();
        let ec2 = SimulatedEc2::builder(account.clone()).build();
        let endpoint = serve_endpoint(&ec2).await;
        let listeners = ["serve", "--listen-grpc", "127.0.0.1:0", "--listen-http", "127.0.0.1:0"];
        let cloud = ["--cloud-endpoint", &endpoint, "--cloud-region", "us-east-1"];
        let program = Program::new(PROGRAM, &[&listeners[..], &cloud].concat());
        let server = with_simulated_credentials(program).start();
        let [grpc, _] = server.wait_for_urls(TIMEOUT);
        Self { ec2, account, _server: server, grpc }
    }
}

struct Applied<'e> {
    example: &'e Example,
    outcome: &'e Outcome,
    name: String,
    /// `None` if no API server accepts the example.
    cluster: Option<ExampleCluster>,
}

impl<'e> Applied<'e> {
    fn start(example: &'e Example, outcome: &'e Outcome, test_bed: &TestBed) -> Self {
        let stem = example.path.rsplit('/').next().unwrap_or_default().trim_end_matches(".yaml");
        let name = format!("example-{stem}");
        let now = test_bed.ec2.cloud().now();
        let start = || ExampleCluster::start(&name, example, &outcome.node_selectors(), &test_bed.grpc, now);
        let cluster = (!matches!(outcome, Outcome::NotAccepted(_))).then(start);
        Self { example, outcome, name, cluster }
    }

    fn unmet_conditions(&self) -> Vec<String> {
        self.cluster.as_ref().map(ExampleCluster::unmet_conditions).unwrap_or_default()
    }

    /// Whether everything that is expected has happened.
    fn is_complete(&self, test_bed: &TestBed) -> bool {
        match self.outcome {
            Outcome::Launches(all) => Launch::first(&test_bed.ec2, &self.name).len() >= all.len(),
            Outcome::Refused(_) => !self.unmet_conditions().is_empty(),
            Outcome::NotAccepted(_) => true,
        }
    }

    /// A text for the table, and what is wrong.
    fn judge(&self, test_bed: &TestBed) -> (String, Vec<String>) {
        let seen = Launch::first(&test_bed.ec2, &self.name);
        match self.outcome {
            Outcome::Refused(why) => {
                let unmet = self.unmet_conditions();
                let is_refused = seen.is_empty() && unmet.iter().any(|condition| condition.starts_with(why));
                let wrong = format!("expected {why:?}; {} launches; {unmet:?}", seen.len());
                (format!("refused: {why}"), if is_refused { Vec::new() } else { vec![wrong] })
            }
            Outcome::NotAccepted(field) => {
                let wrong = (!is_refused_by_crd(self.example, field)).then(|| format!("the CRD accepts {field}"));
                (format!("refused by the CRD: {field}"), wrong.into_iter().collect())
            }
            Outcome::Launches(all) => {
                let mut wrong: Vec<String> = all.iter().flat_map(|one| self.compare(one, &seen, test_bed)).collect();
                let expected: BTreeSet<&str> = all.iter().map(|one| one.pool).collect();
                let pools: BTreeSet<&str> = seen.keys().map(String::as_str).collect();
                if pools != expected {
                    let unmet = self.unmet_conditions();
                    wrong.push(format!("{pools:?} have launched, expected {expected:?}; unmet conditions: {unmet:?}"));
                }
                (describe(&seen), wrong)
            }
        }
    }

    fn compare(
        &self,
        expected: &expected::ExpectedLaunch,
        seen: &BTreeMap<String, Launch>,
        test_bed: &TestBed,
    ) -> Vec<String> {
        let Some(launch) = seen.get(expected.pool) else { return Vec::new() };
        let class = self.example.objects.iter().find(|(kind, _)| *kind == ObjectKind::Ec2NodeClass);
        let own_user_data = class.and_then(|(_, class)| class["spec"]["userData"].as_str()).unwrap_or_default();
        let status = self.cluster.as_ref().and_then(|cluster| cluster.statuses().pop()).unwrap_or_default();
        let profile = status["instanceProfile"].as_str().unwrap_or_default();
        let role = test_bed.ec2.instance_profiles().get(profile).and_then(|profile| profile.role.clone());
        let account = &test_bed.account;
        let expectation = Expectation { cluster: &self.name, account, launch: expected, own_user_data, profile };
        let mut wrong = expectation.compare(launch).into_texts();
        wrong.sort();
        wrong.dedup();
        if role.as_deref() != Some("KarpenterNodeRole-examples") {
            wrong.push(format!("the instance profile {profile:?} has the role {role:?}"));
        }
        wrong.into_iter().map(|text| format!("NodePool {}: {text}", expected.pool)).collect()
    }
}

fn describe(seen: &BTreeMap<String, Launch>) -> String {
    let launch = |(pool, launch): (&String, &Launch)| {
        let capacity_type = launch.fleet.get("TargetCapacitySpecification.DefaultTargetCapacityType");
        format!(
            "{pool}: {}, {} types, {} templates, image {}",
            capacity_type.map_or("?", String::as_str),
            launch.instance_types().len(),
            launch.templates.len(),
            launch.templates.first().and_then(|template| template.get("ImageId")).map_or("?", String::as_str),
        )
    };
    seen.iter().map(launch).collect::<Vec<_>>().join("; ")
}

/// The expected outcome of every example, or why the lists differ.
fn matched(examples: &[Example]) -> Vec<(&Example, &'static Outcome)> {
    let known: BTreeMap<&str, &Outcome> = EXAMPLES.iter().map(|(path, outcome)| (*path, outcome)).collect();
    let found: BTreeSet<&str> = examples.iter().map(|example| example.path.as_str()).collect();
    assert_eq!(found, known.keys().copied().collect(), "the examples of the module, and those of this test");
    examples.iter().map(|example| (example, known[example.path.as_str()])).collect()
}

async fn wait(applied: &[Applied<'_>], test_bed: &TestBed) {
    let deadline = Instant::now() + TIMEOUT;
    while Instant::now() < deadline && !applied.iter().all(|one| one.is_complete(test_bed)) {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_example_of_karpenter_launches_as_documented_or_is_refused_by_name() {
    let test = "every_example_of_karpenter_launches_as_documented_or_is_refused_by_name";
    let examples = match tokio::task::spawn_blocking(|| module::examples(CLUSTER_NAME)).await.unwrap() {
        Ok(examples) => examples,
        Err(why) => return super::report(format_args!("SKIPPED {test}: {why}")),
    };
    let test_bed = TestBed::start().await;
    let applied: Vec<Applied<'_>> =
        matched(&examples).into_iter().map(|(example, outcome)| Applied::start(example, outcome, &test_bed)).collect();
    wait(&applied, &test_bed).await;
    let (mut table, mut failed) = (String::new(), Vec::new());
    for one in &applied {
        let (text, wrong) = one.judge(&test_bed);
        let path = &one.example.path;
        // Writing to a String cannot fail.
        let _always = writeln!(table, "  {path:<42} {text}");
        failed.extend(wrong.into_iter().map(|why| format!("{path}: {why}")));
    }
    super::report(format_args!("Examples of {}:\n{table}", module::MODULE));
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// The schema of `spec.template.spec` in the CRD of NodePools.
fn node_pool_schema() -> Value {
    let crds = Program::new(PROGRAM, &["crds"]).run(TIMEOUT).stdout;
    let document = crds.split("\n---").find(|document| document.contains("name: nodepools.karpenter.sh")).unwrap();
    let crd: Value = serde_saphyr::from_str(document.trim_start_matches("---")).unwrap();
    let root = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
    root["spec"]["properties"]["template"]["properties"]["spec"].clone()
}

/// Whether the CRD refuses the NodePool of an example for `field`, as the API server would.
fn is_refused_by_crd(example: &Example, field: &str) -> bool {
    let mut schema = node_pool_schema();
    let pool = example.objects.iter().find(|(kind, _)| *kind == ObjectKind::NodePool);
    let mut value = pool.map(|(_, pool)| pool["spec"]["template"]["spec"].clone()).unwrap_or_default();
    for name in field.split('.') {
        schema = schema["properties"][name].clone();
        value = value[name].clone();
    }
    // The only pattern that is needed here.
    schema["pattern"] == "^[^/]*$" && value.as_str().is_some_and(|text| text.contains('/'))
}
