using System;
using System.IO;
using System.Net;
using System.Security.Authentication;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using System.Threading.Tasks;
using NUnit.Framework;

namespace Ticketing.Tests
{
    /// <summary>The right authority is accepted over TLS 1.2 and 1.3; another authority and another host name are refused.</summary>
    [TestFixture(SslProtocols.Tls12)]
    [TestFixture(SslProtocols.Tls13)]
    public sealed class TlsTests
    {
        private readonly SslProtocols version;
        private string folder = "";
        private X509Certificate2? leaf;

        public TlsTests(SslProtocols version)
        {
            this.version = version;
        }

        [OneTimeSetUp]
        public void MakeCertificates()
        {
            folder = Path.Combine(Path.GetTempPath(), Path.GetRandomFileName());
            Directory.CreateDirectory(folder);
            using X509Certificate2 ca = Authority("ca");
            using X509Certificate2 other = Authority("other");
            Write("ca", ca);
            Write("other", other);
            leaf = Leaf(ca);
        }

        [OneTimeTearDown]
        public void Remove() => Directory.Delete(folder, true);

        [Test]
        public async Task TheRightAuthorityIsAcceptedByAddressAndByName()
        {
            Assert.That(await Attempt(TlsOptions.CaFile(Pem("ca"))), Is.EqualTo("ok"));
            Assert.That(await Attempt(TlsOptions.CaFile(Pem("ca")).WithServerName("locks.test")), Is.EqualTo("ok"));
        }

        [Test]
        public async Task AnotherAuthorityIsRefused()
        {
            string unsigned = "TLS: no authority of the CA file signed the server's certificate";
            Assert.That(await Attempt(TlsOptions.CaFile(Pem("other"))), Does.StartWith("NotConnected").And.EndsWith(unsigned));
            string untrusted = "TLS: the server's certificate is not trusted: ";
            Assert.That(await Attempt(TlsOptions.SystemRoots()), Does.StartWith("NotConnected").And.Contains(untrusted));
        }

        [Test]
        public async Task AnotherHostNameIsRefused()
        {
            TlsOptions tls = TlsOptions.CaFile(Pem("ca")).WithServerName("elsewhere.test");
            string wrong = "TLS: the server's certificate is for another name";
            Assert.That(await Attempt(tls), Does.StartWith("NotConnected").And.EndsWith(wrong));
        }

        [Test]
        public async Task InsecureAcceptsAnythingWhenAskedFor()
        {
            Assert.That(await Attempt(TlsOptions.Insecure()), Is.EqualTo("ok"));
        }

        [Test]
        public void ABadCaFileIsRefused()
        {
            Assert.Throws<InvalidInputException>(() => TlsOptions.CaFile(Pem("missing")));
            File.WriteAllText(Pem("empty"), "no certificate here");
            Assert.Throws<InvalidInputException>(() => TlsOptions.CaFile(Pem("empty")));
        }

        private static X509Certificate2 Authority(string name)
        {
            using ECDsa key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
            var request = new CertificateRequest("CN=" + name, key, HashAlgorithmName.SHA256);
            request.CertificateExtensions.Add(new X509BasicConstraintsExtension(true, false, 0, true));
            return request.CreateSelfSigned(DateTimeOffset.UtcNow.AddDays(-1), DateTimeOffset.UtcNow.AddDays(2));
        }

        private static X509Certificate2 Leaf(X509Certificate2 ca)
        {
            using ECDsa key = ECDsa.Create(ECCurve.NamedCurves.nistP256);
            var request = new CertificateRequest("CN=leaf", key, HashAlgorithmName.SHA256);
            var names = new SubjectAlternativeNameBuilder();
            names.AddDnsName("locks.test");
            names.AddIpAddress(IPAddress.Loopback);
            request.CertificateExtensions.Add(names.Build());
            using X509Certificate2 signed = request.Create(
                ca, DateTimeOffset.UtcNow.AddHours(-1), DateTimeOffset.UtcNow.AddDays(1), new byte[] { 1, 2, 3 });
            using X509Certificate2 withKey = signed.CopyWithPrivateKey(key);
            return new X509Certificate2(withKey.Export(X509ContentType.Pfx));
        }

        private void Write(string name, X509Certificate2 certificate)
        {
            string body = Convert.ToBase64String(certificate.RawData, Base64FormattingOptions.InsertLineBreaks);
            string pem = "-----BEGIN CERTIFICATE-----\n" + body + "\n-----END CERTIFICATE-----\n";
            File.WriteAllText(Pem(name), pem, Encoding.ASCII);
        }

        private string Pem(string name) => Path.Combine(folder, name + ".pem");

        /// <summary>"ok", or the error's name and message.</summary>
        private async Task<string> Attempt(TlsOptions tls)
        {
            using var server = new ScriptedServer(ScriptedServer.Friendly()) { Certificate = leaf, Protocols = version };
            server.Start();
            await using Broker broker = Broker.Connect(new BrokerOptions(server.Address) { Tls = tls });
            try
            {
                await broker.ReadyAsync(TimeSpan.FromSeconds(3));
                var times = new AcquireOptions(TimeSpan.FromSeconds(5), TimeSpan.FromSeconds(30));
                await (await broker.AcquireAsync("k", times)).DisposeAsync();
                return "ok";
            }
            catch (TicketingException failure)
            {
                return $"{failure.Code}: {failure.Message}";
            }
        }
    }
}
