//! Error codes of the protocol, and the faults that end a connection.

use crate::request::RequestKind;
use core::fmt;

macro_rules! error_codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $kinds:literal, $text:literal;)*) => {
        /// Codes of an `E` reply: the request was refused and nothing was done. Protocol,
        /// "Reply frames".
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum ErrorCode { $($(#[$doc])* $name = $code,)* }

        impl ErrorCode {
            /// Every code, ascending.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// `None` for a number the protocol does not name.
            pub const fn from_wire(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }

            /// Name as the protocol page spells it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// When the server sends it.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Opcodes of the requests it may answer.
            pub const fn request_opcodes(self) -> &'static str {
                match self { $(Self::$name => $kinds,)* }
            }
        }
    };
}

error_codes! {
    /// A key breaks the key rule.
    BadKey = 1, "ARSG", "a key breaks the key rule";
    /// Lease 0 or above 250.
    BadLease = 2, "AS", "lease 0 or above 250";
    /// This node does not take part yet (joining) or any more.
    NotActive = 3, "ARSG", "this node does not take part yet (joining) or any more";
    /// No leader known, or no majority.
    NoLeader = 4, "ARSG", "no leader known, or no majority";
    /// Count outside 2–16, or keys not strictly ascending.
    BadKeySet = 5, "SG", "count outside 2-16, or keys not strictly ascending";
    /// The token is current but was granted for another set of keys.
    GroupMismatch = 6, "RG", "the token is current but was granted for another set of keys";
    /// Token 0.
    BadToken = 7, "RG", "token 0";
}

impl ErrorCode {
    /// Whether this code may answer a request of that kind.
    pub fn answers(self, kind: RequestKind) -> bool {
        self.request_opcodes().as_bytes().contains(&kind.opcode())
    }
}

/// A request frame that ends the connection. Protocol, "What ends a connection".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFault {
    /// Body length outside the opcode's range.
    BodyLength,
    /// Set records do not fill the body exactly.
    RecordsLength,
    /// Request id 0.
    RequestIdZero,
    /// Opcode that names no request.
    UnknownOpcode,
}

/// A reply that ends the session. Protocol, "Reply frames".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyFault {
    /// Body length other than the opcode's exact one.
    BodyLength,
    /// `L` outside cluster mode.
    NotInCluster,
    /// Request id 0, which no request carried.
    RequestIdZero,
    /// A slot outside the cluster.
    Slot,
    /// A grant with token 0.
    TokenZero,
    /// Error code that the protocol does not name.
    UnknownCode,
    /// Opcode that names no reply.
    UnknownOpcode,
}

/// A server hello that the client rejects. Protocol, "Connection".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloFault {
    /// Not a Ticketing server, or another family of the protocol.
    Magic,
    /// Mode other than 0 and 1.
    Mode,
    /// Slot that does not fit the mode: 255 in single mode, 0–4 in a cluster.
    Slot,
    /// Another wire version.
    Version,
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.text())
    }
}

impl fmt::Display for RequestFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BodyLength => "body length outside the opcode's range",
            Self::RecordsLength => "set records do not fill the body exactly",
            Self::RequestIdZero => "request id 0",
            Self::UnknownOpcode => "unknown request opcode",
        })
    }
}

impl fmt::Display for ReplyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BodyLength => "reply body length differs from the opcode's",
            Self::NotInCluster => "a leader announcement outside cluster mode",
            Self::RequestIdZero => "reply to request id 0",
            Self::Slot => "slot outside the cluster",
            Self::TokenZero => "grant with token 0",
            Self::UnknownCode => "unknown error code",
            Self::UnknownOpcode => "unknown reply opcode",
        })
    }
}

impl fmt::Display for HelloFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Magic => "not a Ticketing server (wrong magic)",
            Self::Mode => "unknown mode in the server's hello",
            Self::Slot => "slot in the server's hello does not fit its mode",
            Self::Version => "server speaks another wire version",
        })
    }
}

impl core::error::Error for RequestFault {}
impl core::error::Error for ReplyFault {}
impl core::error::Error for HelloFault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip_and_others_are_unknown() {
        for code in ErrorCode::ALL {
            assert_eq!(ErrorCode::from_wire(*code as u8), Some(*code));
        }
        assert_eq!(ErrorCode::from_wire(0), None);
        assert_eq!(ErrorCode::from_wire(8), None);
    }

    #[test]
    fn codes_answer_only_their_requests() {
        assert!(ErrorCode::BadLease.answers(RequestKind::Acquire));
        assert!(!ErrorCode::BadLease.answers(RequestKind::Release));
        assert!(ErrorCode::BadToken.answers(RequestKind::ReleaseSet));
        assert!(!ErrorCode::BadKeySet.answers(RequestKind::Acquire));
    }
}
