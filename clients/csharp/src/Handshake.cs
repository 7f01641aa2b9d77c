using System;
using System.Buffers.Binary;
using System.IO;
using System.Security.Cryptography;
using System.Text;

namespace Ticketing
{
    /// <summary>The server refused the token.</summary>
    internal sealed class ProofRefused : IOException
    {
        internal ProofRefused()
            : base("the server refused the token")
        {
        }
    }

    /// <summary>Whom the client expects to find at an address.</summary>
    internal sealed class Expected
    {
        private const byte SingleSlot = 255;

        private Expected(byte slot, byte[] fingerprint)
        {
            Slot = slot;
            Fingerprint = fingerprint;
        }

        internal byte Slot { get; }

        internal byte[] Fingerprint { get; }

        internal byte Mode => (byte)(Slot == SingleSlot ? 0 : 1);

        internal static Expected Single()
        {
            using SHA256 sha = SHA256.Create();
            return new Expected(SingleSlot, sha.ComputeHash(Encoding.ASCII.GetBytes("ticketing/single/v3")));
        }

        internal static Expected Member(byte slot, byte[] fingerprint) => new Expected(slot, fingerprint);
    }

    /// <summary>Hello, proof and verdict, as the client sees them. Protocol, "Connection". No I/O.</summary>
    internal static class Handshake
    {
        internal const int HelloSize = 28;
        private const int NonceOffset = 12;
        private const ushort Version = 3;

        private static readonly byte[] Magic = Encoding.ASCII.GetBytes("TCKCLI3\0");
        private static readonly byte[] ProofDomain = Encoding.ASCII.GetBytes("TCK/CLIENT/AUTH3");

        /// <summary>Checks the hello against what is expected, and answers it with the proof.</summary>
        internal static byte[] Prove(byte[] hello, Expected expected, byte[] token)
        {
            if (hello.Length != HelloSize || !hello.AsSpan(0, Magic.Length).SequenceEqual(Magic))
            {
                throw new ProtocolFault("not a Ticketing server (wrong magic)");
            }

            ushort version = BinaryPrimitives.ReadUInt16BigEndian(hello.AsSpan(8));
            if (version != Version)
            {
                throw new ProtocolFault($"the server speaks wire version {version}, this client {Version}");
            }

            if (hello[10] != expected.Mode)
            {
                throw new ProtocolFault("the server runs in the other mode (single or cluster)");
            }

            if (hello[11] != expected.Slot)
            {
                throw new ProtocolFault(
                    $"the server is slot {hello[11]}, expected {expected.Slot}: check the order of the addresses");
            }

            using var message = new MemoryStream();
            message.Write(ProofDomain, 0, ProofDomain.Length);
            message.Write(new byte[] { 0, (byte)Version, expected.Mode }, 0, 3);
            message.Write(expected.Fingerprint, 0, expected.Fingerprint.Length);
            message.WriteByte(expected.Slot);
            message.Write(hello, NonceOffset, HelloSize - NonceOffset);
            using var hmac = new HMACSHA256(token);
            return hmac.ComputeHash(message.ToArray());
        }

        /// <summary>Reads the result byte.</summary>
        internal static void CheckVerdict(byte verdict)
        {
            if (verdict == 0)
            {
                throw new ProofRefused();
            }

            if (verdict != 1)
            {
                throw new ProtocolFault($"handshake result {verdict}, expected 0 or 1");
            }
        }
    }
}
