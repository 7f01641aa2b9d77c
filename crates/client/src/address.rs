//! Server addresses: `host:port`, IPv6 as `[addr]:port`.

use crate::error::Error;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// A parsed address. The host is kept without brackets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let invalid = |why: &str| {
            Error::invalid(format!("address {text:?}: {why}; write it as host:port or [ipv6]:port"))
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(|| invalid("it has no port"))?;
        let host = match host.strip_prefix('[') {
            Some(rest) => {
                let literal =
                    rest.strip_suffix(']').ok_or_else(|| invalid("no closing bracket"))?;
                literal.parse::<Ipv6Addr>().map_err(|_| invalid("no IPv6 address in brackets"))?;
                literal
            }
            None => host,
        };
        let is_bare = host.parse::<Ipv6Addr>().is_err();
        if host.is_empty() || (is_bare && host.contains(['[', ']', ':', '/', '@'])) {
            return Err(invalid("no host name or IP address before the port"));
        }
        if !text.starts_with('[') && !is_bare {
            return Err(invalid("an IPv6 address needs brackets"));
        }
        if host.chars().any(|char| char.is_whitespace() || char.is_control()) {
            return Err(invalid("white space in the host name"));
        }
        // `parse` would take a sign.
        let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
        match port.parse() {
            Ok(port) if is_number && port != 0 => Ok(Self { host: host.to_owned(), port }),
            _ => Err(invalid("the port is not a number from 1 to 65535")),
        }
    }

    /// Whether a connection to it cannot leave this machine, as the no-token mode demands.
    pub(crate) fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => self.host.eq_ignore_ascii_case("localhost"),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_printed_alike() {
        for (text, host, is_loopback) in [
            ("127.0.0.1:5225", "127.0.0.1", true),
            ("127.9.9.9:1", "127.9.9.9", true),
            ("[::1]:65535", "::1", true),
            ("[2001:db8::1]:5225", "2001:db8::1", false),
            ("localhost:5225", "localhost", true),
            ("LocalHost:5225", "LocalHost", true),
            ("localhost.example:5225", "localhost.example", false),
            ("10.0.0.1:5225", "10.0.0.1", false),
        ] {
            let address = Address::parse(text).expect(text);
            assert_eq!(address.host, host);
            assert_eq!(address.is_loopback(), is_loopback, "{text}");
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn bad_addresses_are_refused_by_name() {
        for text in [
            "",
            "host",
            ":5225",
            "host:",
            "host:0",
            "host:65536",
            "host:+1",
            "::1:5225",
            "[::1]",
            "[::1:5225",
            "[host]:5225",
            "[]:5225",
            "a b:5225",
            "http://host:5225",
            "a@b:5225",
        ] {
            let error = Address::parse(text).expect_err(text).to_string();
            assert!(error.contains(&format!("{text:?}")) && error.contains("host:port"), "{error}");
        }
    }
}
