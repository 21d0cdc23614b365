//! `fleetwright-sim simulated-cloud`: the simulated cloud as a process, for tests that restart servers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use cloud::simulated::{ClockedCloud, FaultProfile};
use simulated_ec2::{AccountSettings, Faults, FleetProgress, SimulatedEc2};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use command::exit::{Failure, Status};
use command::output;
use simulation::demo;
use simulation::simulated_cloud::{self, Latency, OtherLaunch};

/// Run the simulated cloud as a process; prints its address as one line on standard output
#[derive(Debug, Args)]
pub(crate) struct SimulatedCloudFlags {
    /// Listen address; port 0 lets the operating system choose
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Listen address of an EC2 account with the same instances, for AWS SDKs; its URL is printed as a second line
    #[arg(long, value_name = "ADDRESS")]
    ec2_listen: Option<SocketAddr>,
    /// Name of the EKS cluster of the EC2 account, whose subnets and security group have the tag
    /// karpenter.sh/discovery=NAME
    #[arg(long, default_value = "demo", value_name = "NAME", requires = "ec2_listen")]
    ec2_cluster: String,
    /// Faults of the EC2 account as JSON, as its address /_simulated/faults takes them
    #[arg(long, default_value = "{}", value_name = "JSON", requires = "ec2_listen")]
    ec2_faults: String,
    /// Random seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Region of the catalogue
    #[arg(long, default_value = "us-east-1")]
    region: String,
    /// Time from launch to running of an instance
    #[arg(long, default_value = "3s", value_name = "DURATION", value_parser = command::duration::parse_duration_flag)]
    boot: Duration,
    /// Maximum random delay before a call takes effect
    #[arg(long, default_value = "0ms", value_name = "DURATION", value_parser = command::duration::parse_duration_flag)]
    arrival: Duration,
    /// Maximum random delay before the response of a call
    #[arg(long, default_value = "0ms", value_name = "DURATION", value_parser = command::duration::parse_duration_flag)]
    answer: Duration,
    /// Refuse every launch for insufficient capacity
    #[arg(long)]
    no_capacity: bool,
    /// Ignore client tokens: every launch call creates an instance
    #[arg(long)]
    ignore_tokens: bool,
    /// Exit when standard input is closed
    #[arg(long)]
    until_input_ends: bool,
    /// Log filter
    #[arg(long, default_value = "warn", value_name = "FILTER")]
    log: String,
}

/// Runs the command.
///
/// # Errors
/// What failed, and its remedy.
pub fn run(flags: SimulatedCloudFlags) -> Result<Status, Failure> {
    telemetry::init_logging(&flags.log, false).map_err(Failure::refused)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::internal(format!("no runtime: {error}")))?;
    runtime.block_on(serve(flags)).map_err(|error| Failure::internal(format!("{error:#}")))?;
    Ok(Status::Done)
}

async fn serve(flags: SimulatedCloudFlags) -> anyhow::Result<()> {
    check_loopback("--listen", flags.listen)?;
    flags.ec2_listen.map_or(Ok(()), |address| check_loopback("--ec2-listen", address))?;
    let asked = server::serve::shutdown_signal();
    let ended = demo::input_ended(flags.until_input_ends)?;
    let stop = async {
        tokio::select! { () = asked => {}, () = ended => {} }
    };
    let listener = listen(flags.listen).await?;
    let ec2_listener = match flags.ec2_listen {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    print_urls([Some(&listener), ec2_listener.as_ref()])?;
    serve_on(&flags, listener, ec2_listener, stop).await
}

/// Serves one cloud on both listeners until `stop`.
async fn serve_on(
    flags: &SimulatedCloudFlags,
    listener: TcpListener,
    ec2_listener: Option<TcpListener>,
    stop: impl Future<Output = ()>,
) -> anyhow::Result<()> {
    let boot = milliseconds(flags.boot);
    let weather = FaultProfile {
        seed: flags.seed,
        boot_ms: (boot, boot),
        no_capacity: flags.no_capacity,
        ignore_tokens: flags.ignore_tokens,
        ..FaultProfile::default()
    };
    let cloud = Arc::new(simulated_cloud::in_process(weather, &flags.region, None)?);
    let latency = Latency { arrival_ms: (0, milliseconds(flags.arrival)), answer_ms: (0, milliseconds(flags.answer)) };
    let (launches, others) = mpsc::unbounded_channel();
    let grpc = simulated_cloud::serve(listener, Arc::clone(&cloud), latency, flags.seed, others, stop);
    let Some(ec2_listener) = ec2_listener else { return grpc.await };
    let (fleets, progress) = mpsc::unbounded_channel();
    let account = ec2_account(flags, cloud, fleets)?;
    tokio::select! {
        ended = grpc => ended,
        () = report_launches(progress, launches) => Ok(()),
        failed = account.serve(ec2_listener, std::future::pending()) => failed.context("the EC2 endpoint failed"),
    }
}

fn check_loopback(flag: &str, address: SocketAddr) -> anyhow::Result<()> {
    if !address.ip().is_loopback() {
        bail!(
            "{flag} {address} is not a loopback address, and the simulated cloud has no authentication: listen on 127.0.0.1"
        );
    }
    Ok(())
}

async fn listen(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))
}

/// An EC2 account in front of `cloud`, which reports its fleets.
fn ec2_account(
    flags: &SimulatedCloudFlags,
    cloud: Arc<ClockedCloud>,
    fleets: UnboundedSender<FleetProgress>,
) -> anyhow::Result<SimulatedEc2> {
    let settings = AccountSettings::new(&flags.region, &flags.ec2_cluster);
    let given = serde_json::from_str(&flags.ec2_faults).context("--ec2-faults is not JSON")?;
    let faults = Faults { seed: flags.seed, ..Faults::default() }.updated(&given).context("--ec2-faults")?;
    Ok(SimulatedEc2::builder(settings).cloud(cloud).faults(faults).report_fleets(fleets).build())
}

/// Passes the fleets of the EC2 account on as launches.
async fn report_launches(mut fleets: UnboundedReceiver<FleetProgress>, launches: UnboundedSender<OtherLaunch>) {
    while let Some(FleetProgress { number, fleet, answered }) = fleets.recv().await {
        let tag = |key: &str| fleet.tags.get(key).cloned().unwrap_or_default();
        let launch = OtherLaunch {
            token: fleet.client_token.clone().unwrap_or_default(),
            cluster: tag("fleetwright.dev/cluster"),
            claim: tag("fleetwright.dev/nodeclaim"),
            instance: fleet.instances.first().cloned().unwrap_or_default(),
            number,
            answered,
        };
        // The receiver lives as long as this task.
        let _unobserved = launches.send(launch);
    }
}

/// Prints one line for each listener, in order.
fn print_urls<'l>(listeners: impl IntoIterator<Item = Option<&'l TcpListener>>) -> anyhow::Result<()> {
    let mut lines = String::new();
    for listener in listeners.into_iter().flatten() {
        lines += &format!("http://{}\n", listener.local_addr()?);
    }
    output::print_text(&lines).map_err(|_| anyhow!("cannot write to standard output"))
}

pub(crate) fn milliseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use clap::Parser;
    use cloud::provider::{CloudEvent, CloudProvider, InstanceState, LaunchRequest, Override};
    use model::{CapacityType, Text};
    use simulation::simulated_cloud::remote::RemoteCloud;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        flags: SimulatedCloudFlags,
    }

    #[tokio::test]
    async fn an_ec2_endpoint_on_another_address_is_rejected() {
        let arguments = ["simulated-cloud", "--ec2-listen", "192.0.2.1:0"];
        let refused = serve(Command::parse_from(arguments).flags).await.unwrap_err().to_string();
        assert!(refused.starts_with("--ec2-listen 192.0.2.1:0 is not a loopback address"), "{refused}");
    }

    #[tokio::test]
    async fn a_non_loopback_address_is_rejected() {
        // 192.0.2.0/24 is reserved for documentation (RFC 5737), so listening would fail too: the
        // message tells the causes apart.
        for address in ["192.0.2.1:0", "[2001:db8::1]:0"] {
            let Command { flags } = Command::parse_from(["simulated-cloud", "--listen", address]);
            let refused = serve(flags).await.unwrap_err().to_string();
            assert!(refused.contains("is not a loopback address"), "{refused}");
        }
    }

    fn request() -> LaunchRequest {
        LaunchRequest {
            token: "t-1".into(),
            cluster: "blue".into(),
            cluster_uid: "uid-1".into(),
            claim: "web-abcde".into(),
            pool: "web".into(),
            node_class: "default".into(),
            capacity_type: CapacityType::OnDemand,
            overrides: vec![Override { instance_type: "m5.large".into(), zone: "us-east-1a".into() }],
            reservation: None,
            terms: Text::default(),
            template: None,
        }
    }

    /// The answer of EC2 to a form.
    async fn ec2(address: SocketAddr, form: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let body = format!("Version=2016-11-15&{form}");
        let head = format!("POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn both_interfaces_serve_one_cloud() {
        let Command { flags } = Command::parse_from(["simulated-cloud", "--boot", "1h"]);
        let [listener, ec2_listener] = [listen(flags.listen).await.unwrap(), listen(flags.listen).await.unwrap()];
        let (grpc, address) = (listener.local_addr().unwrap(), ec2_listener.local_addr().unwrap());
        tokio::spawn(async move { serve_on(&flags, listener, Some(ec2_listener), std::future::pending()).await });
        let remote = RemoteCloud::new(&format!("http://{grpc}")).unwrap();
        // The first call for events says where they begin.
        assert_eq!(remote.events().await.unwrap(), Some(Vec::new()));
        let id = remote.launch(&request()).await.unwrap().instance.id;
        let described = ec2(address, &format!("Action=DescribeInstances&InstanceId.1={id}")).await;
        assert!(
            described.contains("<value>web-abcde</value>") && described.contains("<name>pending</name>"),
            "{described}"
        );
        ec2(address, &format!("Action=TerminateInstances&InstanceId.1={id}")).await;
        assert_eq!(remote.describe(&id).await.unwrap().state, InstanceState::ShuttingDown);
        // The end is an event of the gRPC service, although the EC2 endpoint advances the time too.
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        loop {
            match remote.events().await.unwrap().unwrap_or_default().as_slice() {
                [CloudEvent::Terminated(instance)] => break assert_eq!(instance.id, id),
                other => assert_eq!(other, [], "a termination is the only event"),
            }
            assert!(tokio::time::Instant::now() < deadline, "the termination is not reported");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
