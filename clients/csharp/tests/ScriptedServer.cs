using System;
using System.Buffers.Binary;
using System.Collections.Concurrent;
using System.IO;
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Authentication;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Ticketing.Tests
{
    /// <summary>One request frame; the token is that of <c>R</c> and <c>G</c>.</summary>
    internal sealed class Received
    {
        internal Received(Peer peer, char op, byte[] body)
        {
            Peer = peer;
            Op = op;
            RequestId = BinaryPrimitives.ReadUInt64BigEndian(body);
            Token = op == 'R' || op == 'G' ? BinaryPrimitives.ReadUInt64BigEndian(body.AsSpan(8)) : 0;
        }

        internal Peer Peer { get; }

        internal char Op { get; }

        internal ulong RequestId { get; }

        internal ulong Token { get; }
    }

    /// <summary>One accepted client.</summary>
    internal sealed class Peer
    {
        private readonly TcpClient client;
        private readonly Stream stream;

        internal Peer(TcpClient client, Stream stream, int index)
        {
            this.client = client;
            this.stream = stream;
            Index = index;
        }

        internal int Index { get; }

        internal bool IsCut { get; private set; }

        internal void Reply(char op, ulong requestId, params byte[] rest)
        {
            var frame = new byte[11 + rest.Length];
            frame[0] = (byte)op;
            frame[2] = (byte)(8 + rest.Length);
            BinaryPrimitives.WriteUInt64BigEndian(frame.AsSpan(3), requestId);
            rest.CopyTo(frame, 11);
            stream.Write(frame, 0, frame.Length);
        }

        internal void Grant(Received request, ulong token)
        {
            var bytes = new byte[8];
            BinaryPrimitives.WriteUInt64BigEndian(bytes, token);
            Reply(request.Op, request.RequestId, bytes);
        }

        internal void Cut()
        {
            IsCut = true;
            client.Dispose();
        }
    }

    /// <summary>A scripted server: does the handshake, hands every request to the test, and sends what the test says.</summary>
    internal sealed class ScriptedServer : IDisposable
    {
        private readonly TcpListener listener;
        private volatile Action<Received> script;

        internal ScriptedServer(Action<Received> script, int port = 0)
        {
            this.script = script;
            listener = new TcpListener(IPAddress.Loopback, port);
            listener.Start();
        }

        internal ConcurrentQueue<Received> Requests { get; } = new ConcurrentQueue<Received>();

        internal ConcurrentQueue<Peer> Peers { get; } = new ConcurrentQueue<Peer>();

        internal int Port => ((IPEndPoint)listener.LocalEndpoint).Port;

        internal string Address => "127.0.0.1:" + Port;

        internal string Token { get; set; } = "";

        internal byte Slot { get; set; } = 255;

        internal byte[] Fingerprint { get; set; } = Expected.Single().Fingerprint;

        internal X509Certificate2? Certificate { get; set; }

        internal SslProtocols Protocols { get; set; }

        public void Dispose()
        {
            listener.Stop();
            foreach (Peer peer in Peers)
            {
                peer.Cut();
            }
        }

        /// <summary>Grants every acquire with a rising token, and confirms every release.</summary>
        internal static Action<Received> Friendly()
        {
            long next = 0;
            return request =>
            {
                if (request.Op == 'A' || request.Op == 'S')
                {
                    request.Peer.Grant(request, (ulong)Interlocked.Increment(ref next));
                }
                else
                {
                    request.Peer.Reply(request.Op, request.RequestId);
                }
            };
        }

        internal static async Task Until(Func<bool> condition, string what)
        {
            var watch = System.Diagnostics.Stopwatch.StartNew();
            while (!condition())
            {
                if (watch.Elapsed > TimeSpan.FromSeconds(10))
                {
                    throw new TimeoutException("never happened: " + what);
                }

                await Task.Delay(2);
            }
        }

        internal ScriptedServer Start()
        {
            _ = Accept();
            return this;
        }

        internal void Script(Action<Received> next) => script = next;

        private async Task Accept()
        {
            try
            {
                for (int index = 0; ; index++)
                {
                    TcpClient client = await listener.AcceptTcpClientAsync();
                    _ = Task.Run(() => Serve(client, index));
                }
            }
            catch (Exception closed) when (closed is ObjectDisposedException || closed is SocketException || closed is InvalidOperationException)
            {
                // The test is over.
            }
        }

        private async Task Serve(TcpClient client, int index)
        {
            try
            {
                Stream stream = client.GetStream();
                if (Certificate != null)
                {
                    var secured = new SslStream(stream);
                    await secured.AuthenticateAsServerAsync(Certificate, false, Protocols, false);
                    stream = secured;
                }

                var peer = new Peer(client, stream, index);
                Peers.Enqueue(peer);
                var nonce = new byte[16];
                RandomNumberGenerator.Fill(nonce);
                byte mode = (byte)(Slot == 255 ? 0 : 1);
                stream.Write(Join(Encoding.ASCII.GetBytes("TCKCLI3\0"), new byte[] { 0, 3, mode, Slot }, nonce));
                byte[] proof = await Read(stream, 32);
                bool accepted = proof.AsSpan().SequenceEqual(Proof(mode, nonce));
                stream.Write(new[] { (byte)(accepted ? 1 : 0) });
                while (accepted)
                {
                    byte[] head = await Read(stream, 3);
                    var request = new Received(peer, (char)head[0], await Read(stream, (head[1] << 8) | head[2]));
                    Requests.Enqueue(request);
                    script(request);
                }
            }
            catch (Exception ended) when (ended is IOException || ended is ObjectDisposedException || ended is AuthenticationException)
            {
                // The client has gone, or the test has cut.
            }
            finally
            {
                client.Dispose();
            }
        }

        private byte[] Proof(byte mode, byte[] nonce)
        {
            using var hmac = new HMACSHA256(Encoding.UTF8.GetBytes(Token));
            byte[] domain = Encoding.ASCII.GetBytes("TCK/CLIENT/AUTH3");
            return hmac.ComputeHash(Join(domain, new byte[] { 0, 3, mode }, Fingerprint, new[] { Slot }, nonce));
        }

        private static byte[] Join(params byte[][] parts)
        {
            using var all = new MemoryStream();
            foreach (byte[] part in parts)
            {
                all.Write(part);
            }

            return all.ToArray();
        }

        private static async Task<byte[]> Read(Stream stream, int size)
        {
            var bytes = new byte[size];
            for (int filled = 0; filled < size;)
            {
                int count = await stream.ReadAsync(bytes, filled, size - filled);
                filled += count > 0 ? count : throw new EndOfStreamException();
            }

            return bytes;
        }
    }
}
