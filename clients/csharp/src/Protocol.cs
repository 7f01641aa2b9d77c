using System;
using System.Buffers.Binary;
using System.IO;

namespace Ticketing
{
    /// <summary>The peer broke the protocol; the session ends.</summary>
    internal sealed class ProtocolFault : IOException
    {
        internal ProtocolFault(string message)
            : base(message)
        {
        }
    }

    /// <summary>One reply frame.</summary>
    internal readonly struct Reply : IEquatable<Reply>
    {
        internal const byte NoSlot = 255;
        internal const byte CodeNotActive = 3;
        internal const byte CodeNoLeader = 4;
        internal const byte CodeMax = 7;

        private static readonly string[] CodeAnswers = { "", "ARSG", "AS", "ARSG", "ARSG", "SG", "RG", "RG" };

        internal Reply(char op, ulong requestId, ulong token, byte detail)
        {
            Op = op;
            RequestId = requestId;
            Token = token;
            Detail = detail;
        }

        internal char Op { get; }

        /// <summary>The request answered; 0 for <c>L</c>, which answers none.</summary>
        internal ulong RequestId { get; }

        /// <summary>The token of <c>A</c> and <c>S</c>.</summary>
        internal ulong Token { get; }

        /// <summary>The slot of <c>M</c> and <c>L</c> (255: none), the code of <c>E</c>; else 0.</summary>
        internal byte Detail { get; }

        internal bool Grants => Op == 'A' || Op == 'S';

        /// <summary>Whether nothing was done because this node does not lead: the request may go elsewhere.</summary>
        internal bool IsLeaderless => Op == 'M' || (Op == 'E' && (Detail == CodeNotActive || Detail == CodeNoLeader));

        public bool Equals(Reply other) =>
            Op == other.Op && RequestId == other.RequestId && Token == other.Token && Detail == other.Detail;

        public override bool Equals(object? obj) => obj is Reply other && Equals(other);

        public override int GetHashCode() => (Op, RequestId, Token, Detail).GetHashCode();

        /// <summary>Whether it may answer a request with that opcode.</summary>
        internal bool Answers(char kind)
        {
            string kinds = Op switch
            {
                'A' => "A",
                'S' => "S",
                'R' => "R",
                'G' => "G",
                'N' => "RG",
                'T' => "AS",
                'B' => "AS",
                'M' => "ARSG",
                'I' => "ARSG",
                'E' => CodeAnswers[Detail],
                _ => "",
            };
            return kinds.IndexOf(kind) >= 0;
        }
    }

    /// <summary>Client wire protocol, version 3: requests to bytes, bytes to replies. No I/O.</summary>
    internal static class Protocol
    {
        internal const int HeadSize = 3;
        private const int AcquireFixedSize = 10;
        private const int ReleaseFixedSize = 16;

        internal static char AcquireKind(byte[][] keys) => keys.Length == 1 ? 'A' : 'S';

        internal static char ReleaseKind(byte[][] keys) => keys.Length == 1 ? 'R' : 'G';

        /// <summary><c>A</c> for one key, <c>S</c> for a set. Keys are checked and ascending.</summary>
        internal static byte[] Acquire(ulong requestId, byte waitSeconds, byte leaseSeconds, byte[][] keys)
        {
            byte[] frame = NewFrame(AcquireKind(keys), AcquireFixedSize, requestId, keys);
            frame[HeadSize + 8] = waitSeconds;
            frame[HeadSize + 9] = leaseSeconds;
            return frame;
        }

        /// <summary><c>R</c> for one key, <c>G</c> for a set. Keys are checked and ascending.</summary>
        internal static byte[] Release(ulong requestId, ulong token, byte[][] keys)
        {
            byte[] frame = NewFrame(ReleaseKind(keys), ReleaseFixedSize, requestId, keys);
            BinaryPrimitives.WriteUInt64BigEndian(frame.AsSpan(HeadSize + 8), token);
            return frame;
        }

        /// <summary>
        /// Decodes the reply at the start of <paramref name="bytes"/>; returns its size, 0 when it is not whole yet.
        /// </summary>
        /// <param name="bytes">What has come and is not decoded yet.</param>
        /// <param name="voterCount">The number of slots; 0 in single mode.</param>
        /// <param name="reply">The reply.</param>
        internal static int Decode(ReadOnlySpan<byte> bytes, int voterCount, out Reply reply)
        {
            reply = default;
            if (bytes.IsEmpty)
            {
                return 0;
            }

            char op = (char)bytes[0];
            int bodySize = BodySize(op);
            if (bodySize < 0)
            {
                throw new ProtocolFault($"unknown reply opcode {bytes[0]}");
            }

            if (op == 'L' && voterCount == 0)
            {
                throw new ProtocolFault("leader announcement in single mode");
            }

            if (bytes.Length < HeadSize)
            {
                return 0;
            }

            if (BinaryPrimitives.ReadUInt16BigEndian(bytes.Slice(1)) != bodySize)
            {
                throw new ProtocolFault($"reply {op} with a wrong body length");
            }

            if (bytes.Length < HeadSize + bodySize)
            {
                return 0;
            }

            reply = Body(op, bytes.Slice(HeadSize, bodySize), voterCount);
            return HeadSize + bodySize;
        }

        private static byte[] NewFrame(char kind, int fixedSize, ulong requestId, byte[][] keys)
        {
            bool single = keys.Length == 1;
            int bodySize = fixedSize + (single ? 0 : 1);
            foreach (byte[] key in keys)
            {
                bodySize += key.Length + (single ? 0 : 1);
            }

            var frame = new byte[HeadSize + bodySize];
            frame[0] = (byte)kind;
            BinaryPrimitives.WriteUInt16BigEndian(frame.AsSpan(1), (ushort)bodySize);
            BinaryPrimitives.WriteUInt64BigEndian(frame.AsSpan(HeadSize), requestId);
            int offset = HeadSize + fixedSize;
            if (!single)
            {
                frame[offset++] = (byte)keys.Length;
            }

            foreach (byte[] key in keys)
            {
                if (!single)
                {
                    frame[offset++] = (byte)key.Length;
                }

                key.CopyTo(frame, offset);
                offset += key.Length;
            }

            return frame;
        }

        private static int BodySize(char op)
        {
            switch (op)
            {
                case 'A':
                case 'S':
                    return 16;
                case 'M':
                case 'E':
                    return 9;
                case 'R':
                case 'G':
                case 'N':
                case 'T':
                case 'B':
                case 'I':
                    return 8;
                case 'L':
                    return 1;
                default:
                    return -1;
            }
        }

        private static Reply Body(char op, ReadOnlySpan<byte> body, int voterCount)
        {
            if (op == 'L')
            {
                return new Reply(op, 0, 0, Slot(body[0], voterCount));
            }

            ulong requestId = BinaryPrimitives.ReadUInt64BigEndian(body);
            if (requestId == 0)
            {
                throw new ProtocolFault("reply to request id 0");
            }

            switch (op)
            {
                case 'A':
                case 'S':
                    ulong token = BinaryPrimitives.ReadUInt64BigEndian(body.Slice(8));
                    return token != 0 ? new Reply(op, requestId, token, 0) : throw new ProtocolFault("grant with token 0");
                case 'M':
                    return new Reply(op, requestId, 0, Slot(body[8], voterCount));
                case 'E':
                    return body[8] >= 1 && body[8] <= Reply.CodeMax
                        ? new Reply(op, requestId, 0, body[8])
                        : throw new ProtocolFault($"unknown error code {body[8]}");
                default:
                    return new Reply(op, requestId, 0, 0);
            }
        }

        private static byte Slot(byte slot, int voterCount) =>
            slot == Reply.NoSlot || slot < voterCount ? slot : throw new ProtocolFault($"slot {slot} outside the cluster");
    }
}
