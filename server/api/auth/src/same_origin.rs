//! Refuses requests of pages of other origins, which a browser would send with what it has for this host.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, Uri, header};

use super::AuthError;

/// Set by browsers, and not by scripts: where a request comes from, relative to this host.
const SEC_FETCH_SITE: &str = "sec-fetch-site";

/// Accepts requests of pages of this server, and of programs.
///
/// # Errors
/// A browser sends it for a page of another origin.
pub(crate) fn check_same_origin(uri: &Uri, headers: &HeaderMap) -> Result<(), AuthError> {
    check_single(headers)?;
    let refuse = |what: &str, value: &str| Err(AuthError(format!("{what} {value:?} is a page of another origin")));
    match text(headers, SEC_FETCH_SITE) {
        Some("same-origin" | "none") => return Ok(()),
        Some(site) => return refuse("Sec-Fetch-Site", site),
        None => {}
    }
    match origin_host(headers) {
        Some(origin) if Some(origin) != asked_host(uri, headers) => refuse("Origin", origin),
        _ => Ok(()),
    }
}

/// Accepts only requests addressed to this host when authentication is off. Prevents DNS rebinding:
/// a foreign web page could otherwise read the fleet through a local browser.
///
/// # Errors
/// The host or the origin is not local.
pub(crate) fn check_local(uri: &Uri, headers: &HeaderMap) -> Result<(), AuthError> {
    check_single(headers)?;
    let named = uri.authority().map(|authority| authority.as_str());
    let hosts = [("host", named), ("Host", text(headers, header::HOST.as_str())), ("Origin", origin_host(headers))];
    for (what, host) in hosts {
        if let Some(host) = host.filter(|host| !is_local(host)) {
            return Err(AuthError(format!(
                "{what} {host:?} is not localhost; without auth.file this server accepts only requests for localhost"
            )));
        }
    }
    Ok(())
}

/// Refuses a request that states its host or its origin twice: what stands behind this server might read the other one.
fn check_single(headers: &HeaderMap) -> Result<(), AuthError> {
    let is_twice = |name: &&str| headers.get_all(*name).iter().count() > 1;
    match [header::HOST.as_str(), header::ORIGIN.as_str(), SEC_FETCH_SITE].into_iter().find(is_twice) {
        Some(name) => Err(AuthError(format!("the request has more than one header {name}"))),
        None => Ok(()),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}

fn asked_host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    uri.authority().map(|authority| authority.as_str()).or_else(|| text(headers, header::HOST.as_str()))
}

fn origin_host(headers: &HeaderMap) -> Option<&str> {
    text(headers, header::ORIGIN.as_str()).map(|origin| origin.split_once("://").map_or(origin, |(_, host)| host))
}

fn is_local(host: &str) -> bool {
    let address = host.parse::<SocketAddr>().map(|address| address.ip());
    let address = address.or_else(|_| host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>());
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let name = host.rsplit_once(':').filter(|(_, port)| is_port(port)).map_or(host, |(name, _port)| name);
    address.map_or_else(|_| name.eq_ignore_ascii_case("localhost"), |address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_other_origins_are_refused_and_programs_are_not() {
        let asked = |pairs: &[(&'static str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| {
                (header::HeaderName::from_static(name), header::HeaderValue::from_str(value).unwrap())
            });
            check_same_origin(&Uri::from_static("/v1/freezes"), &pairs.collect()).map_err(|denial| denial.to_string())
        };
        let host = ("host", "fleet.example.com");
        assert_eq!(asked(&[host]), Ok(()), "a program");
        assert_eq!(asked(&[host, ("sec-fetch-site", "same-origin")]), Ok(()));
        assert_eq!(asked(&[host, ("sec-fetch-site", "none")]), Ok(()), "typed by a person");
        assert_eq!(asked(&[host, ("origin", "https://fleet.example.com")]), Ok(()));
        // A proxy may change the host; what the browser says of it holds.
        let proxied = [("host", "10.0.0.7:7480"), ("origin", "https://fleet.example.com")];
        assert_eq!(asked(&[proxied[0], proxied[1], ("sec-fetch-site", "same-origin")]), Ok(()));
        for (pairs, expected) in [
            (&[host, ("sec-fetch-site", "cross-site")][..], "Sec-Fetch-Site \"cross-site\""),
            (&[host, ("sec-fetch-site", "same-site")], "\"same-site\""),
            (&[host, ("origin", "https://evil.example")], "Origin \"evil.example\""),
            (&[host, ("origin", "https://fleet.example.com:8443")], "Origin \"fleet.example.com:8443\""),
            (&[host, ("origin", "null")], "Origin \"null\""),
            (&[host, ("origin", "https://fleet.example.com"), ("sec-fetch-site", "cross-site")], "cross-site"),
        ] {
            let refused = asked(pairs).unwrap_err();
            assert!(refused.contains(expected), "{pairs:?}: {refused}");
        }
    }
}
