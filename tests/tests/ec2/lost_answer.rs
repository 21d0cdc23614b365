//! A CreateFleet that EC2 executes and does not answer, by the log and the ledger of the endpoint: the server process
//! repeats the call with its token, also when it was killed before it could, and no second instance is launched.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use e2e::{Postgres, Program, RunningProcess, Signal};
use simulated_ec2::{AccountSettings, Call, Effect, FaultRule, Outcome, SimulatedEc2};

use crate::{SIMULATOR, report, serve_endpoint, serve_on_ec2};

/// Generous, for busy machines.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The account that the EC2NodeClass of the demo's clusters selects from.
const REGION: &str = "us-east-1";
const ACCOUNT: &str = "demo";

/// Pods of the first step of the demo's workload.
const PODS: &str = "\"running\":12,";

/// The endpoint, a database, a server, and the agent of a simulated cluster with pods that need an instance.
struct Environment {
    ec2: SimulatedEc2,
    endpoint: String,
    database: Postgres,
    grpc: String,
    server: RunningProcess,
    /// Serves the endpoint; dropped last.
    _runtime: tokio::runtime::Runtime,
}

impl Environment {
    /// The first CreateFleet is executed without an answer, and no later one arrives.
    fn start(test: &str) -> Option<Self> {
        let database = Postgres::start(test)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let ec2 = SimulatedEc2::builder(AccountSettings::new(REGION, ACCOUNT)).build();
        ec2.add_fault(FaultRule::times("CreateFleet", 1, Effect::CutAfter));
        ec2.add_fault(FaultRule { skip: 1, ..FaultRule::always("CreateFleet", Effect::CutBefore) });
        let endpoint = runtime.block_on(serve_endpoint(&ec2));
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let grpc = free.to_string();
        let server = serve_on_ec2(REGION, &grpc, &endpoint, &database, &[]);
        Some(Self { ec2, endpoint, database, grpc, server, _runtime: runtime })
    }

    fn cluster(&self) -> RunningProcess {
        let server = format!("http://{}", self.grpc);
        let cluster = ["--server", &server, "--cluster-name", "amber", "--seed", "1", "--log", "error"];
        Program::new(SIMULATOR, &[&["simulated-agent"], &cluster[..]].concat()).start_with_stdout()
    }

    /// Kills the server, and waits until its port is free.
    fn kill_server(&mut self) {
        self.server.signal(Signal::Kill);
        let deadline = Instant::now() + TIMEOUT;
        while self.server.is_running() {
            assert!(Instant::now() < deadline, "a killed process runs after {TIMEOUT:?}");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    fn restart_server(&mut self) {
        self.server = serve_on_ec2(REGION, &self.grpc, &self.endpoint, &self.database, &[]);
    }

    fn fleets(&self) -> Vec<Call> {
        self.ec2.calls_of("CreateFleet")
    }

    fn mend(&self) {
        self.ec2.change_faults(|faults| faults.rules.clear());
    }
}

/// Waits until a CreateFleet has `outcome`.
fn wait_for_fleet(environment: &Environment, outcome: &Outcome) {
    let deadline = Instant::now() + TIMEOUT;
    while !environment.fleets().iter().any(|call| call.outcome == *outcome) {
        let lines = || environment.server.take_stderr_lines().join("\n");
        assert!(Instant::now() < deadline, "no CreateFleet with {outcome:?}: {:#?}\n{}", environment.fleets(), lines());
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

fn token(call: &Call) -> String {
    call.fleet.as_ref().and_then(|fleet| fleet.client_token.clone()).unwrap()
}

/// Waits until all pods run, and checks that each token launched one instance, and that the first one was repeated.
fn check(environment: &Environment, cluster: &RunningProcess) {
    let answered = Outcome::Answered { status: 200, code: None };
    wait_for_fleet(environment, &answered);
    while !cluster.next_stdout_line(TIMEOUT).contains(PODS) {}
    let fleets = environment.fleets();
    let first = token(&fleets[0]);
    let of_first: Vec<&Call> = fleets.iter().filter(|call| token(call) == first).collect();
    assert_eq!(of_first[0].outcome, Outcome::Cut { executed: true });
    let repetition = of_first.last().unwrap();
    assert_eq!(repetition.outcome, answered, "{fleets:#?}");
    let mut launched: BTreeMap<String, usize> = BTreeMap::new();
    environment.ec2.cloud().cloud().ledger().entries().for_each(|entry| {
        *launched.entry(entry.token.to_string()).or_default() += 1;
    });
    assert!(launched.values().all(|instances| *instances == 1), "{launched:?}");
    // What the repetition answered is the instance of the call without an answer.
    let ids = &repetition.fleet.as_ref().unwrap().instances;
    let ledger = environment.ec2.cloud().cloud();
    let entry = ledger.ledger().entry(&ids[0]).unwrap().clone();
    assert_eq!((ids.len(), entry.instance.launched.as_millis() < repetition.at_ms), (1, true), "{entry:?}");
    drop(ledger);
    let duplicates = environment.ec2.cloud().cloud().ledger().duplicate_launches();
    assert_eq!(duplicates, []);
    let (calls, instances) = (fleets.len(), launched.len());
    let with_first = of_first.len();
    report(format_args!(
        "figure: {calls} CreateFleet, {with_first} of them with the first token; {instances} instances"
    ));
}

#[test]
fn a_fleet_without_an_answer_is_asked_for_again_and_launches_no_second_instance() {
    let test = "a_fleet_without_an_answer_is_asked_for_again_and_launches_no_second_instance";
    let Some(environment) = Environment::start(test) else { return };
    let cluster = environment.cluster();
    wait_for_fleet(&environment, &Outcome::Cut { executed: true });
    environment.mend();
    check(&environment, &cluster);
}

#[test]
fn a_server_killed_after_a_fleet_without_an_answer_launches_no_second_instance() {
    let test = "a_server_killed_after_a_fleet_without_an_answer_launches_no_second_instance";
    let Some(mut environment) = Environment::start(test) else { return };
    let cluster = environment.cluster();
    wait_for_fleet(&environment, &Outcome::Cut { executed: true });
    environment.kill_server();
    environment.mend();
    environment.restart_server();
    check(&environment, &cluster);
}
