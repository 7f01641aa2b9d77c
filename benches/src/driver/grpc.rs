//! As much of gRPC over HTTP/2 as unary calls with small messages need.
//!
//! Requests have fixed headers, so they are prepared HPACK bytes; of the answers only messages and
//! stream ends matter, so their headers are skipped undecoded.

use super::Fault;

/// What a client says first, with an empty SETTINGS frame and a receive window that no run of the
/// load tool can use up.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
    \0\0\0\x04\0\0\0\0\0\
    \0\0\x04\x08\0\0\0\0\0\x7f\xff\0\0";

const FRAME_HEAD_SIZE_BYTES: usize = 9;
/// Flag and length before a message.
const MESSAGE_HEAD_SIZE_BYTES: usize = 5;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// What a frame from the server means for a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard<'a> {
    /// The whole answer message of the call on this stream.
    Message(u32, &'a [u8]),
    /// The call on this stream is over.
    End(u32),
    /// Nothing for any call.
    Nothing,
}

/// Whether the call's headers are the connection's first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Headers {
    /// Spelt out, and entered into the server's table.
    First,
    /// By their places in that table.
    Later,
}

/// Appends a unary call.
pub(super) fn call(headers: Headers, stream: u32, path: &str, message: &[u8], out: &mut Vec<u8>) {
    // Static table: 0x83 is `:method: POST`, 0x86 `:scheme: http`, 4 the name `:path`.
    let start = frame_head(HEADERS, END_HEADERS, stream, out);
    out.extend_from_slice(&[0x83, 0x86, 0x04]);
    string(path, out);
    match headers {
        Headers::First => {
            // 0x40: enter into the table; 0x41: likewise, with the static name `:authority`.
            out.push(0x41);
            string("localhost", out);
            for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")] {
                out.push(0x40);
                string(name, out);
                string(value, out);
            }
        }
        // The table grows at its front, from 62: the last entered comes first.
        Headers::Later => out.extend_from_slice(&[0x80 | 64, 0x80 | 63, 0x80 | 62]),
    }
    end_frame(start, out);
    let start = frame_head(DATA, END_STREAM, stream, out);
    out.push(0);
    // Messages are a few dozen bytes.
    out.extend_from_slice(&(message.len() as u32).to_be_bytes());
    out.extend_from_slice(message);
    end_frame(start, out);
}

/// Reads the frame at the start of `bytes`: its meaning and its size. What has to be
/// acknowledged is appended to `out`.
pub(super) fn hear<'a>(
    bytes: &'a [u8],
    out: &mut Vec<u8>,
) -> Result<Option<(Heard<'a>, usize)>, Fault> {
    let Some(head) = bytes.first_chunk::<FRAME_HEAD_SIZE_BYTES>() else { return Ok(None) };
    let body_size = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    let (kind, flags) = (head[3], head[4]);
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    let size = FRAME_HEAD_SIZE_BYTES + body_size;
    let Some(body) = bytes.get(FRAME_HEAD_SIZE_BYTES..size) else { return Ok(None) };
    let heard = match kind {
        DATA => Heard::Message(stream, message(body)?),
        HEADERS if flags & END_STREAM != 0 => Heard::End(stream),
        RST_STREAM | GO_AWAY => return Err(Fault::unexpected("no reset", &bytes[..size])),
        SETTINGS | PING if flags & ACK == 0 => {
            let start = frame_head(kind, ACK, 0, out);
            if kind == PING {
                out.extend_from_slice(body);
            }
            end_frame(start, out);
            Heard::Nothing
        }
        _ => Heard::Nothing,
    };
    Ok(Some((heard, size)))
}

fn message(body: &[u8]) -> Result<&[u8], Fault> {
    let whole = body.split_first_chunk::<MESSAGE_HEAD_SIZE_BYTES>().filter(|(head, message)| {
        u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize == message.len()
    });
    let (_, message) = whole.ok_or_else(|| Fault::unexpected("one whole message", body))?;
    Ok(message)
}

/// Begins a frame whose size is not known yet.
fn frame_head(kind: u8, flags: u8, stream: u32, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    start
}

fn end_frame(start: usize, out: &mut [u8]) {
    // Far below the 16 KiB that every peer accepts.
    let size = (out.len() - start - FRAME_HEAD_SIZE_BYTES) as u32;
    out[start..start + 3].copy_from_slice(&size.to_be_bytes()[1..]);
}

/// A literal without Huffman coding.
fn string(text: &str, out: &mut Vec<u8>) {
    // All are below 127 bytes: one length byte.
    out.push(text.len() as u8);
    out.extend_from_slice(text.as_bytes());
}

/// Appends a protobuf field of bytes.
pub(super) fn bytes_field(number: u8, value: &[u8], out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// Appends a protobuf field of a number.
pub(super) fn number_field(number: u8, value: u64, out: &mut Vec<u8>) {
    out.push(number << 3);
    varint(value, out);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A field of a protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The first field with that number.
pub(super) fn field(mut message: &[u8], wanted: u8) -> Option<Field<'_>> {
    while !message.is_empty() {
        let tag = take_varint(&mut message)?;
        let value = match tag & 7 {
            0 => Field::Number(take_varint(&mut message)?),
            2 => {
                let size = usize::try_from(take_varint(&mut message)?).ok()?;
                let (value, rest) = message.split_at_checked(size)?;
                message = rest;
                Field::Bytes(value)
            }
            _ => return None,
        };
        if tag >> 3 == u64::from(wanted) {
            return Some(value);
        }
    }
    None
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_two_frames() {
        let mut out = Vec::new();
        call(Headers::Later, 5, "/a/B", b"msg", &mut out);
        let headers = b"\0\0\x0b\x01\x04\0\0\0\x05\x83\x86\x04\x04/a/B\xc0\xbf\xbe";
        let data = b"\0\0\x08\0\x01\0\0\0\x05\0\0\0\0\x03msg";
        assert_eq!(out, [&headers[..], data].concat());
        let heard = hear(&out[headers.len()..], &mut Vec::new());
        assert_eq!(heard, Ok(Some((Heard::Message(5, b"msg"), data.len()))));
    }

    #[test]
    fn settings_and_pings_are_acknowledged() {
        let mut out = Vec::new();
        let ping = b"\0\0\x08\x06\0\0\0\0\0abcdefgh";
        assert_eq!(hear(ping, &mut out), Ok(Some((Heard::Nothing, ping.len()))));
        assert_eq!(out, b"\0\0\x08\x06\x01\0\0\0\0abcdefgh");
        out.clear();
        let settings = b"\0\0\0\x04\0\0\0\0\0";
        assert_eq!(hear(settings, &mut out), Ok(Some((Heard::Nothing, 9))));
        assert_eq!(out, b"\0\0\0\x04\x01\0\0\0\0");
        out.clear();
        assert_eq!(hear(b"\0\0\0\x04\x01\0\0\0\0", &mut out), Ok(Some((Heard::Nothing, 9))));
        assert!(out.is_empty(), "an acknowledgement is not acknowledged");
    }

    #[test]
    fn ends_resets_and_cuts() {
        let end = b"\0\0\x01\x01\x05\0\0\0\x07\x88";
        assert_eq!(hear(end, &mut Vec::new()), Ok(Some((Heard::End(7), 10))));
        for cut in 0..end.len() {
            assert_eq!(hear(&end[..cut], &mut Vec::new()), Ok(None), "cut at {cut}");
        }
        assert!(hear(b"\0\0\x04\x03\0\0\0\0\x07\0\0\0\x08", &mut Vec::new()).is_err());
        assert!(hear(b"\0\0\x06\0\0\0\0\0\x07\0\0\0\0\x02x", &mut Vec::new()).is_err());
    }

    #[test]
    fn protobuf_fields() {
        let mut message = Vec::new();
        bytes_field(1, b"head", &mut message);
        number_field(2, 7_587_848_000_000_000_123, &mut message);
        assert_eq!(field(&message, 1), Some(Field::Bytes(b"head")));
        assert_eq!(field(&message, 2), Some(Field::Number(7_587_848_000_000_000_123)));
        assert_eq!(field(&message, 3), None);
        assert_eq!(field(&message[..message.len() - 1], 2), None);
    }
}
