using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Text.RegularExpressions;

namespace Ticketing
{
    /// <summary>What a broker is told. Checked when it connects.</summary>
    public sealed class BrokerOptions
    {
        /// <summary>Creates options for one server, or for the 3 or 5 nodes of a cluster.</summary>
        /// <param name="addresses"><c>host:port</c>, IPv6 as <c>[addr]:port</c>; those of a cluster in slot order.</param>
        public BrokerOptions(params string[] addresses)
        {
            Addresses = addresses;
        }

        /// <summary>One address, or those of a cluster in slot order.</summary>
        public IReadOnlyList<string> Addresses { get; set; }

        /// <summary>The cluster's identity: 64 hexadecimal digits. Its presence selects cluster mode.</summary>
        public string? Fingerprint { get; set; }

        /// <summary>Client token, 16–4096 bytes. Without one every address must be a loopback address.</summary>
        public byte[]? Token { get; set; }

        /// <summary>How connections are secured; <c>null</c> for no TLS.</summary>
        public TlsOptions? Tls { get; set; }

        /// <summary>Most acquires between call and answer, over the whole broker: 1–16,384; 1024.</summary>
        public int PendingCountMax { get; set; } = Limits.PendingCountDefault;

        /// <summary>Sets the token from text, as UTF-8.</summary>
        /// <param name="token">16–4096 bytes of UTF-8.</param>
        /// <returns>The same options.</returns>
        public BrokerOptions WithToken(string token)
        {
            Token = Encoding.UTF8.GetBytes(token);
            return this;
        }
    }

    /// <summary>How long an acquire may queue and hold. Immutable; checked when it is made.</summary>
    public sealed class AcquireOptions
    {
        /// <summary>Creates the options.</summary>
        /// <param name="wait">Longest time to queue, 0–255 s; fractions are rounded up; zero is one immediate try.</param>
        /// <param name="lease">Whole seconds, 1–250.</param>
        /// <param name="budget">Least time that must be left of the lease when the grant arrives; less than the lease.</param>
        /// <exception cref="InvalidInputException">A value is out of range; nothing is clamped.</exception>
        public AcquireOptions(TimeSpan wait, TimeSpan lease, TimeSpan budget = default)
        {
            if (wait < TimeSpan.Zero || wait > TimeSpan.FromSeconds(Limits.WaitSecondsMax))
            {
                throw new InvalidInputException($"wait is 0 to {Limits.WaitSecondsMax} s, got {wait}");
            }

            if (lease.Ticks % TimeSpan.TicksPerSecond != 0
                || lease < TimeSpan.FromSeconds(Limits.LeaseSecondsMin)
                || lease > TimeSpan.FromSeconds(Limits.LeaseSecondsMax))
            {
                throw new InvalidInputException(
                    $"lease is a whole number of seconds from {Limits.LeaseSecondsMin} to {Limits.LeaseSecondsMax}, got {lease}");
            }

            if (budget < TimeSpan.Zero || budget >= lease)
            {
                throw new InvalidInputException($"the budget is from 0 to less than the lease ({lease}), got {budget}");
            }

            WaitSeconds = (byte)((wait.Ticks + TimeSpan.TicksPerSecond - 1) / TimeSpan.TicksPerSecond);
            LeaseSeconds = (byte)(lease.Ticks / TimeSpan.TicksPerSecond);
            Budget = budget;
        }

        internal byte WaitSeconds { get; }

        internal byte LeaseSeconds { get; }

        internal TimeSpan Budget { get; }
    }

    /// <summary>One server address.</summary>
    internal sealed class Endpoint
    {
        private static readonly Regex Form =
            new Regex(@"^(?:\[(?<six>[^\]\s]+)\]|(?<host>[^:\s\[\]]+)):(?<port>[0-9]{1,5})$", RegexOptions.CultureInvariant);

        private Endpoint(string host, int port)
        {
            Host = host;
            Port = port;
        }

        internal string Host { get; }

        internal int Port { get; }

        internal bool IsLoopback =>
            Host == "localhost" || (IPAddress.TryParse(Host, out IPAddress address) && IPAddress.IsLoopback(address));

        internal static Endpoint Parse(string address)
        {
            Match match = Form.Match(address);
            bool isSix = match.Groups["six"].Success;
            string host = match.Groups[isSix ? "six" : "host"].Value;
            if (!match.Success
                || !int.TryParse(match.Groups["port"].Value, NumberStyles.None, CultureInfo.InvariantCulture, out int port)
                || port < 1
                || port > 65_535
                || (isSix && !(IPAddress.TryParse(host, out IPAddress six) && six.AddressFamily == AddressFamily.InterNetworkV6)))
            {
                throw new InvalidInputException($"address \"{address}\": expected host:port, or [addr]:port for IPv6");
            }

            return new Endpoint(host, port);
        }
    }

    /// <summary>Broker options in checked form.</summary>
    internal sealed class Settings
    {
        internal Settings(BrokerOptions options)
        {
            Endpoints = options.Addresses.Select(Endpoint.Parse).ToArray();
            Fingerprint = options.Fingerprint is null ? null : ParseFingerprint(options.Fingerprint);
            if (Fingerprint is null && Endpoints.Length != 1)
            {
                throw new InvalidInputException($"without a fingerprint exactly 1 address is needed, got {Endpoints.Length}");
            }

            if (Fingerprint != null && Endpoints.Length != 3 && Endpoints.Length != 5)
            {
                throw new InvalidInputException($"a cluster has 3 or 5 addresses in slot order, got {Endpoints.Length}");
            }

            Token = CheckedToken(options.Token, Endpoints);
            PendingCountMax = options.PendingCountMax >= 1 && options.PendingCountMax <= Limits.PendingCountMax
                ? options.PendingCountMax
                : throw new InvalidInputException(
                    $"PendingCountMax is from 1 to {Limits.PendingCountMax}, got {options.PendingCountMax}");
            Tls = options.Tls;
        }

        internal Endpoint[] Endpoints { get; }

        internal byte[]? Fingerprint { get; }

        internal byte[] Token { get; }

        internal TlsOptions? Tls { get; }

        internal int PendingCountMax { get; }

        private static byte[] ParseFingerprint(string text)
        {
            if (!Regex.IsMatch(text, @"\A[0-9a-fA-F]{64}\z"))
            {
                throw new InvalidInputException("a fingerprint has 64 hexadecimal digits");
            }

            var bytes = new byte[32];
            for (int index = 0; index < bytes.Length; index++)
            {
                bytes[index] = byte.Parse(text.Substring(2 * index, 2), NumberStyles.HexNumber, CultureInfo.InvariantCulture);
            }

            return bytes;
        }

        private static byte[] CheckedToken(byte[]? token, Endpoint[] endpoints)
        {
            if (token is null || token.Length == 0)
            {
                Endpoint? remote = endpoints.FirstOrDefault(endpoint => !endpoint.IsLoopback);
                return remote is null
                    ? Array.Empty<byte>()
                    : throw new InvalidInputException($"a token is needed: {remote.Host} is not a loopback address");
            }

            return token.Length >= Limits.TokenSizeBytesMin && token.Length <= Limits.TokenSizeBytesMax
                ? (byte[])token.Clone()
                : throw new InvalidInputException(
                    $"a token has {Limits.TokenSizeBytesMin} to {Limits.TokenSizeBytesMax} bytes, got {token.Length}");
        }
    }
}
