//! What an agent reports for new nodes. It becomes part of their user data, so nothing unexpected is accepted.

use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use fleetwright_proto::v1;
use model::{ClusterFacts, Text};

/// Longest URL of an API server, in bytes; a limit of the protocol.
const MAX_ENDPOINT_BYTES: usize = 512;
/// Largest bundle of certificates, in bytes; a limit of the protocol. EC2 allows 16 KiB of user data.
const MAX_AUTHORITY_BYTES: usize = 64 * 1024;
/// Longest range of addresses: an IPv6 address has at most 45 characters, and its prefix length 4.
const MAX_CIDR_BYTES: usize = 49;
/// Most addresses of DNS; a limit of the protocol. A cluster has one for each IP family.
const MAX_DNS_ADDRESSES: usize = 8;
/// Longest version of Kubernetes, in bytes: versions such as `v1.35.2-eks-0123456` have about 20.
const MAX_VERSION_BYTES: usize = 64;
/// Characters of a refused value that are repeated in the reason.
const MAX_QUOTED_CHARS: usize = 80;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DecodedFacts {
    /// The facts that can be used; the others are empty.
    pub(crate) facts: Arc<ClusterFacts>,
    /// Why each of the others cannot be used.
    pub(crate) refused: Vec<Text>,
}

/// Decodes the facts of `hello`; `None` when it has none.
pub(crate) fn read(hello: &v1::Hello) -> Option<DecodedFacts> {
    if hello.facts.is_none() && hello.kubernetes_version.is_empty() {
        return None;
    }
    let absent = v1::ClusterFacts::default();
    let reported = hello.facts.as_deref().unwrap_or(&absent);
    let mut refused = Vec::new();
    let facts = ClusterFacts {
        endpoint: accept(endpoint(&reported.api_endpoint), &mut refused),
        certificate_authority: accept(authority(&reported.certificate_authority), &mut refused),
        service_cidr: accept(service_cidr(&reported.service_cidr), &mut refused),
        dns: accept(dns(&reported.dns_addresses), &mut refused),
        kubernetes_version: accept(version(&hello.kubernetes_version), &mut refused),
    };
    Some(DecodedFacts { facts: Arc::new(facts), refused })
}

fn accept<T: Default>(read: Result<T, String>, refused: &mut Vec<Text>) -> T {
    read.unwrap_or_else(|why| {
        refused.push(why.into());
        T::default()
    })
}

fn endpoint(url: &str) -> Result<Text, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._~:/[]%".contains(c);
    let host = url.strip_prefix("https://").map(|rest| rest.trim_start_matches('['));
    let is_url = host.is_some_and(|host| host.starts_with(|c: char| c.is_ascii_alphanumeric() || c == ':'));
    if url.is_empty() || is_url && url.len() <= MAX_ENDPOINT_BYTES && url.chars().all(allowed) {
        return Ok(url.into());
    }
    Err(format!("the URL of the API server {} is no https:// URL of at most {MAX_ENDPOINT_BYTES} bytes", quoted(url)))
}

fn authority(pem: &[u8]) -> Result<Text, String> {
    if pem.is_empty() {
        return Ok(Text::default());
    }
    if pem.len() > MAX_AUTHORITY_BYTES {
        let found = pem.len();
        return Err(format!("the API server's authorities have {found} bytes, allowed: {MAX_AUTHORITY_BYTES}"));
    }
    let text = std::str::from_utf8(pem).unwrap_or_default();
    let mut labels = text.lines().map(str::trim).filter(|line| line.starts_with("-----BEGIN")).peekable();
    // The content is not repeated in the reason: it may be a private key.
    if labels.peek().is_none() || labels.any(|label| label != "-----BEGIN CERTIFICATE-----") {
        return Err("the API server's authorities are not certificates in PEM, and nothing else".to_owned());
    }
    Ok(STANDARD.encode(pem).into())
}

fn service_cidr(cidr: &str) -> Result<Option<Text>, String> {
    if cidr.is_empty() {
        return Ok(None);
    }
    if cidr.len() <= MAX_CIDR_BYTES && is_cidr(cidr) {
        return Ok(Some(cidr.into()));
    }
    Err(format!("the range of Services {} is no range such as 10.100.0.0/16", quoted(cidr)))
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let most = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.bytes().all(|b| b.is_ascii_digit()) && length.parse::<u8>().is_ok_and(|length| length <= most)
}

fn dns(addresses: &[String]) -> Result<Vec<IpAddr>, String> {
    if addresses.len() > MAX_DNS_ADDRESSES {
        return Err(format!("{} addresses of DNS, allowed: at most {MAX_DNS_ADDRESSES}", addresses.len()));
    }
    let parse =
        |text: &String| text.parse().map_err(|_| format!("the address of DNS {} is no IP address", quoted(text)));
    addresses.iter().map(parse).collect()
}

fn version(version: &str) -> Result<Text, String> {
    if version.len() <= MAX_VERSION_BYTES && version.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(version.into());
    }
    Err(format!("the version of the API server {} is none of at most {MAX_VERSION_BYTES} bytes", quoted(version)))
}

/// The beginning of a value of the agent, in quotation marks and without control characters.
fn quoted(text: &str) -> String {
    format!("{:?}", text.chars().take(MAX_QUOTED_CHARS).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEM: &str = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";

    fn hello(change: impl FnOnce(&mut v1::ClusterFacts)) -> v1::Hello {
        let mut facts = v1::ClusterFacts {
            api_endpoint: "https://api.example:6443".into(),
            certificate_authority: PEM.into(),
            service_cidr: "10.100.0.0/16".into(),
            dns_addresses: vec!["10.100.0.10".into(), "fd00::a".into()],
        };
        change(&mut facts);
        v1::Hello { kubernetes_version: "v1.35.2".into(), facts: Some(Box::new(facts)), ..v1::Hello::default() }
    }

    fn good() -> ClusterFacts {
        ClusterFacts {
            endpoint: "https://api.example:6443".into(),
            // The bytes of PEM in base64, by `base64 -w0`.
            certificate_authority: "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBPT0KLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo="
                .into(),
            service_cidr: Some("10.100.0.0/16".into()),
            dns: vec!["10.100.0.10".parse().unwrap(), "fd00::a".parse().unwrap()],
            kubernetes_version: "v1.35.2".into(),
        }
    }

    fn decoded(change: impl FnOnce(&mut v1::ClusterFacts)) -> (ClusterFacts, Vec<String>) {
        let decoded = read(&hello(change)).unwrap();
        ((*decoded.facts).clone(), decoded.refused.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn facts_are_decoded() {
        assert_eq!(decoded(|_| {}), (good(), Vec::new()));
        let none = decoded(|facts| *facts = v1::ClusterFacts::default());
        assert_eq!(
            none,
            (ClusterFacts { kubernetes_version: "v1.35.2".into(), ..ClusterFacts::default() }, Vec::new())
        );
    }

    #[test]
    fn an_agent_without_facts_reports_its_version_alone() {
        let older = v1::Hello { kubernetes_version: "v1.35.2".into(), ..v1::Hello::default() };
        assert_eq!(read(&older).unwrap().facts.kubernetes_version.as_ref(), "v1.35.2");
        assert_eq!(read(&v1::Hello::default()), None);
    }

    #[test]
    fn an_endpoint_is_a_bounded_https_url() {
        // 8 bytes of scheme and 504 of host are 512.
        for url in [
            "https://a",
            "https://[2001:db8::1]:6443",
            "https://a/k8s/clusters/c-1",
            &format!("https://{}", "a".repeat(504)),
        ] {
            assert_eq!(decoded(|facts| facts.api_endpoint = url.into()).0.endpoint.as_ref(), url);
        }
        let long = format!("https://{}", "a".repeat(505));
        for url in ["http://a", "https://", "a", "https://a'; rm -rf /", "https://a\nb", "https://user@a", &long] {
            let (facts, refused) = decoded(|facts| facts.api_endpoint = url.into());
            assert_eq!(facts, ClusterFacts { endpoint: Text::default(), ..good() }, "{url:?}");
            assert!(refused.len() == 1 && refused[0].starts_with("the URL of the API server \""), "{refused:?}");
            assert!(refused[0].len() < 200 && !refused[0].contains('\n'), "{refused:?}");
        }
    }

    #[test]
    fn authorities_are_certificates_of_at_most_64_kib() {
        let with = |pem: Vec<u8>| decoded(|facts| facts.certificate_authority = pem);
        // Text before the certificates is allowed (RFC 7468, explanatory text).
        let padded = |size: usize| [vec![b'\n'; size - PEM.len()], PEM.into()].concat();
        assert_eq!(with(padded(65_536)).1, [""; 0]);
        let refused = with(padded(65_537)).1;
        assert_eq!(refused, ["the API server's authorities have 65537 bytes, allowed: 65536"]);
        let key = format!("{PEM}-----BEGIN PRIVATE KEY-----\nc0ffee\n-----END PRIVATE KEY-----\n");
        for pem in [key.into_bytes(), b"AA==".to_vec(), vec![0xff, 0xfe]] {
            let (facts, refused) = with(pem);
            assert_eq!(facts, ClusterFacts { certificate_authority: Text::default(), ..good() });
            assert!(refused.len() == 1 && !refused[0].contains("c0ffee"), "{refused:?}");
        }
    }

    #[test]
    fn ranges_addresses_and_versions_are_checked() {
        for cidr in ["10.100.0.0", "10.100.0.0/33", "10.100.0.0/+8", "fd00::/129", "x/8", "/8"] {
            let (facts, refused) = decoded(|facts| facts.service_cidr = cidr.into());
            assert_eq!((facts, refused.len()), (ClusterFacts { service_cidr: None, ..good() }, 1), "{cidr}");
        }
        assert_eq!(decoded(|facts| facts.service_cidr = "fd00::/108".into()).0.service_cidr, Some("fd00::/108".into()));
        let addresses = |addresses: Vec<String>| decoded(|facts| facts.dns_addresses = addresses);
        assert_eq!(addresses(vec!["10.0.0.10".into(); 8]).0.dns.len(), 8);
        let none = ClusterFacts { dns: Vec::new(), ..good() };
        let many = addresses(vec!["10.0.0.10".into(); 9]);
        assert_eq!(many, (none.clone(), vec!["9 addresses of DNS, allowed: at most 8".to_owned()]));
        let name = addresses(vec!["dns.local".into()]);
        assert_eq!(name, (none, vec!["the address of DNS \"dns.local\" is no IP address".to_owned()]));
        let version = v1::Hello { kubernetes_version: "v".repeat(65), ..hello(|_| {}) };
        let decoded = read(&version).unwrap();
        assert_eq!((decoded.facts.kubernetes_version.as_ref(), decoded.refused.len()), ("", 1));
    }
}
