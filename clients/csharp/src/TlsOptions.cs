using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net.Security;
using System.Security.Authentication;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text.RegularExpressions;
using System.Threading.Tasks;

namespace Ticketing
{
    /// <summary>
    /// How connections are secured. Certificates and host names are verified, unless <see cref="Insecure"/> was asked for
    /// by name. The platform chooses among TLS 1.2 and later.
    /// </summary>
    public sealed class TlsOptions
    {
        private const string PemPattern = "-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\\s]+)-----END CERTIFICATE-----";

        /// <summary><c>null</c>: the system's authorities.</summary>
        private readonly IReadOnlyList<X509Certificate2>? authorities;

        private readonly bool verifies;

        private TlsOptions(IReadOnlyList<X509Certificate2>? authorities, bool verifies, string? serverName)
        {
            this.authorities = authorities;
            this.verifies = verifies;
            ServerName = serverName;
        }

        /// <summary>The name that the certificate must carry; <c>null</c> for the host of the address.</summary>
        public string? ServerName { get; }

        /// <summary>Trusts the certificate authorities of the system.</summary>
        /// <returns>The options.</returns>
        public static TlsOptions SystemRoots() => new TlsOptions(null, true, null);

        /// <summary>Trusts the certificate authorities of a file, and no others.</summary>
        /// <param name="path">File with one or more certificates in PEM form.</param>
        /// <returns>The options.</returns>
        /// <exception cref="InvalidInputException">The file cannot be read or has no certificate.</exception>
        public static TlsOptions CaFile(string path)
        {
            try
            {
                X509Certificate2[] found = Regex.Matches(File.ReadAllText(path), PemPattern)
                    .Cast<Match>()
                    .Select(match => new X509Certificate2(Convert.FromBase64String(match.Groups[1].Value)))
                    .ToArray();
                return found.Length > 0
                    ? new TlsOptions(found, true, null)
                    : throw new InvalidInputException($"CA file \"{path}\" holds no certificate");
            }
            catch (Exception cause) when (cause is IOException || cause is UnauthorizedAccessException
                || cause is FormatException || cause is CryptographicException || cause is ArgumentException)
            {
                throw new InvalidInputException($"CA file \"{path}\": {cause.Message}", cause);
            }
        }

        /// <summary>Accepts any certificate and any name: no protection against an attacker on the network. For tests only.</summary>
        /// <returns>The options.</returns>
        public static TlsOptions Insecure() => new TlsOptions(null, false, null);

        /// <summary>Expects another name in the certificate than the host of the address.</summary>
        /// <param name="name">A host name or address.</param>
        /// <returns>Options with that name.</returns>
        public TlsOptions WithServerName(string name) => new TlsOptions(authorities, verifies, name);

        /// <summary>Secures a stream; throws when the peer is not whom it should be.</summary>
        internal async Task<Stream> Secure(Stream plain, string host)
        {
            string? refusal = null;
            var secured = new SslStream(plain, false, (sender, certificate, chain, errors) =>
            {
                refusal = Refusal(certificate, chain, errors);
                return refusal is null;
            });
            try
            {
                // No protocol named: the platform's choice, which has no version older than 1.2 any more.
                await secured.AuthenticateAsClientAsync(ServerName ?? host, null, SslProtocols.None, false).ConfigureAwait(false);
            }
            catch (AuthenticationException cause) when (refusal != null)
            {
                // The platform says only that its caller refused.
                throw new AuthenticationException("TLS: " + refusal, cause);
            }

            if (secured.SslProtocol < SslProtocols.Tls12)
            {
                secured.Dispose();
                throw new AuthenticationException($"the server speaks {secured.SslProtocol}, at least TLS 1.2 is needed");
            }

            return secured;
        }

        /// <summary>Why a certificate is refused; <c>null</c> when it is accepted.</summary>
        private string? Refusal(X509Certificate? certificate, X509Chain? chain, SslPolicyErrors errors)
        {
            if (!verifies)
            {
                return null;
            }

            if (certificate is null || chain is null || errors.HasFlag(SslPolicyErrors.RemoteCertificateNotAvailable))
            {
                return "the server shows no certificate";
            }

            if (errors.HasFlag(SslPolicyErrors.RemoteCertificateNameMismatch))
            {
                return "the server's certificate is for another name";
            }

            if (authorities is null)
            {
                return errors == SslPolicyErrors.None ? null : Problem(chain);
            }

            // What the system thinks of the authority does not matter; everything else does.
            return RefusalByAuthorities(certificate, chain);
        }

        private string? RefusalByAuthorities(X509Certificate certificate, X509Chain presented)
        {
            using var chain = new X509Chain();
            chain.ChainPolicy.RevocationMode = X509RevocationMode.NoCheck;
            // The end of the chain is checked below, byte for byte.
            chain.ChainPolicy.VerificationFlags = X509VerificationFlags.AllowUnknownCertificateAuthority;
            foreach (X509Certificate2 authority in authorities!)
            {
                chain.ChainPolicy.ExtraStore.Add(authority);
            }

            foreach (X509ChainElement element in presented.ChainElements)
            {
                chain.ChainPolicy.ExtraStore.Add(element.Certificate);
            }

            using var leaf = new X509Certificate2(certificate);
            if (!chain.Build(leaf))
            {
                return Problem(chain);
            }

            byte[] end = chain.ChainElements[chain.ChainElements.Count - 1].Certificate.RawData;
            return authorities.Any(authority => authority.RawData.AsSpan().SequenceEqual(end))
                ? null
                : "no authority of the CA file signed the server's certificate";
        }

        private static string Problem(X509Chain chain) =>
            "the server's certificate is not trusted: "
            + string.Join("; ", chain.ChainStatus.Select(status => status.StatusInformation.Trim()));
    }
}
