using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using NUnit.Framework;

namespace Ticketing.Tests
{
    /// <summary>The client's behaviour against a scripted server.</summary>
    [TestFixture]
    public sealed class BrokerTests
    {
        private static readonly AcquireOptions Times = new AcquireOptions(TimeSpan.FromSeconds(5), TimeSpan.FromSeconds(30));
        private static readonly AcquireOptions Short = new AcquireOptions(TimeSpan.FromSeconds(1), TimeSpan.FromSeconds(30));

        private readonly List<Func<Task>> cleanups = new List<Func<Task>>();

        [TearDown]
        public async Task CleanUp()
        {
            foreach (Func<Task> cleanup in Enumerable.Reverse(cleanups))
            {
                await cleanup();
            }

            cleanups.Clear();
        }

        [Test]
        public async Task AcquiresAndReleasesOneKeyAndASet()
        {
            ScriptedServer server = Serve(ScriptedServer.Friendly());
            Broker broker = Connect(server.Address);
            Ticket ticket = await broker.AcquireAsync("order-1", Times);
            Assert.That(ticket.Token, Is.EqualTo(1));
            Assert.That(ticket.Keys, Is.EqualTo(new[] { "order-1" }));
            Assert.That(ticket.Domain, Is.EqualTo("single"));
            Assert.That(ticket.Remaining, Is.InRange(TimeSpan.FromSeconds(29), TimeSpan.FromSeconds(30)));
            Assert.That(await ticket.ReleaseAsync(), Is.EqualTo(ReleaseOutcome.Released));
            Assert.That(await ticket.ReleaseAsync(), Is.EqualTo(ReleaseOutcome.Released));
            await using (Ticket set = await broker.AcquireSetAsync(new[] { "b", "a", "b" }, Times))
            {
                Assert.That(set.Keys, Is.EqualTo(new[] { "a", "b" }));
            }

            await (await broker.AcquireSetAsync(new[] { "x", "x" }, Times)).DisposeAsync();
            Assert.That(string.Concat(server.Requests.Select(request => request.Op)), Is.EqualTo("ARSGAR"));
        }

        [Test]
        public async Task ARefusedTokenIsNamed()
        {
            ScriptedServer server = Serve(ScriptedServer.Friendly());
            server.Token = "0123456789abcdef";
            Broker wrong = Connect(new BrokerOptions(server.Address).WithToken("another-token-16"));
            await Fails(ErrorCode.Unauthorized, () => wrong.ReadyAsync(TimeSpan.FromMilliseconds(300)));
            await Fails(ErrorCode.Unauthorized, () => wrong.AcquireAsync("k", Short));
            Broker right = Connect(new BrokerOptions(server.Address).WithToken(server.Token));
            await (await right.AcquireAsync("k", Times)).DisposeAsync();
        }

        [Test]
        public async Task RecoversWhenAServerComes()
        {
            int port;
            using (var gone = new ScriptedServer(ScriptedServer.Friendly()))
            {
                port = gone.Port;
            }

            Broker broker = Connect("127.0.0.1:" + port);
            var failure = Assert.ThrowsAsync<NotConnectedException>(() => broker.AcquireAsync("k", Short));
            Assert.That(failure!.Message, Does.Contain("127.0.0.1:" + port + ": ").And.Contain("refused"));
            Keep(new ScriptedServer(ScriptedServer.Friendly(), port).Start());
            Assert.That((await broker.AcquireAsync("k", Times)).Token, Is.EqualTo(1));
        }

        [Test]
        public async Task TheServersRefusalsAreReportedAtOnce()
        {
            ScriptedServer server = Serve(request => request.Peer.Reply('T', request.RequestId));
            Broker broker = Connect(server.Address);
            await Fails(ErrorCode.Timeout, () => broker.AcquireAsync("k", Times));
            server.Script(request => request.Peer.Reply('B', request.RequestId));
            await Fails(ErrorCode.Busy, () => broker.AcquireAsync("k", Times));
            server.Script(request => request.Peer.Reply('I', request.RequestId));
            await Fails(ErrorCode.Indeterminate, () => broker.AcquireAsync("k", Times));
            server.Script(request => request.Peer.Reply('E', request.RequestId, 2));
            RejectedException? rejected = Assert.ThrowsAsync<RejectedException>(() => broker.AcquireAsync("k", Times));
            Assert.That(rejected!.RejectionCode, Is.EqualTo(2));
        }

        [Test]
        public async Task ACutAfterTheRequestLeftIsIndeterminateAndNotSentAgain()
        {
            ScriptedServer server = Serve(request => request.Peer.Cut());
            Broker broker = Connect(server.Address);
            await Fails(ErrorCode.Indeterminate, () => broker.AcquireAsync("k", Times));
            await broker.ReadyAsync(TimeSpan.FromSeconds(5));
            Assert.That(server.Requests, Has.Count.EqualTo(1));
        }

        [Test]
        public async Task NotActiveIsRetriedWithinTheWait()
        {
            int count = 0;
            Action<Received> grant = ScriptedServer.Friendly();
            ScriptedServer server = Serve(request =>
            {
                if (Interlocked.Increment(ref count) < 3)
                {
                    request.Peer.Reply('E', request.RequestId, Reply.CodeNotActive);
                }
                else
                {
                    grant(request);
                }
            });
            Broker broker = Connect(server.Address);
            Assert.That((await broker.AcquireAsync("k", Times)).Token, Is.EqualTo(1));
            server.Script(request => request.Peer.Reply('E', request.RequestId, Reply.CodeNoLeader));
            await Fails(ErrorCode.NoLeader, () => broker.AcquireAsync("k", Short));
        }

        [Test]
        public async Task MovedLeadsToTheLeaderWhichLaterRequestsAskFirst()
        {
            Action<Received> grant = ScriptedServer.Friendly();
            ScriptedServer[] servers = Enumerable.Range(0, 3)
                .Select(slot =>
                {
                    ScriptedServer server = Serve(request =>
                    {
                        if (slot == 2)
                        {
                            grant(request);
                        }
                        else
                        {
                            request.Peer.Reply('M', request.RequestId, 2);
                        }
                    });
                    server.Slot = (byte)slot;
                    server.Fingerprint = new byte[32];
                    return server;
                })
                .ToArray();
            var options = new BrokerOptions(servers.Select(server => server.Address).ToArray())
            {
                Fingerprint = new string('0', 64),
            };
            Broker broker = Connect(options);
            Ticket ticket = await broker.AcquireAsync("k", Times);
            Assert.That(ticket.Domain, Is.EqualTo(options.Fingerprint));
            await ticket.DisposeAsync();
            int misled = servers[0].Requests.Count + servers[1].Requests.Count;
            for (int turn = 0; turn < 5; turn++)
            {
                await (await broker.AcquireAsync("k", Times)).DisposeAsync();
            }

            Assert.That(servers[0].Requests.Count + servers[1].Requests.Count, Is.EqualTo(misled));
        }

        [Test]
        public async Task ACancelledAcquireReleasesItsLateGrantAndKeepsTheConnection()
        {
            Received? late = null;
            ScriptedServer server = Serve(request =>
            {
                if (request.Op == 'A')
                {
                    late = request;
                }
                else
                {
                    request.Peer.Reply('R', request.RequestId);
                }
            });
            Broker broker = Connect(new BrokerOptions(server.Address) { PendingCountMax = 1 });
            using var cancel = new CancellationTokenSource();
            Task<Ticket> acquire = broker.AcquireAsync("k", Times, cancel.Token);
            await ScriptedServer.Until(() => late != null, "the request arrives");
            cancel.Cancel();
            Assert.CatchAsync<OperationCanceledException>(() => acquire);
            // The request is still outstanding, and counts.
            await Fails(ErrorCode.ClientCapacity, () => broker.AcquireAsync("k", Times));
            late!.Peer.Grant(late, 77);
            await ScriptedServer.Until(() => server.Requests.Any(r => r.Op == 'R' && r.Token == 77), "the release");
            Assert.That(late.Peer.IsCut, Is.False);
        }

        [Test]
        public async Task TooLittleLeaseLeftIsReleasedAndReported()
        {
            ScriptedServer server = Serve(async request =>
            {
                if (request.Op == 'A')
                {
                    await Task.Delay(300);
                    request.Peer.Grant(request, 5);
                }
                else
                {
                    request.Peer.Reply('R', request.RequestId);
                }
            });
            Broker broker = Connect(server.Address);
            var times = new AcquireOptions(TimeSpan.FromSeconds(5), TimeSpan.FromSeconds(1), TimeSpan.FromSeconds(0.8));
            await Fails(ErrorCode.InsufficientLease, () => broker.AcquireAsync("k", times));
            await ScriptedServer.Until(() => server.Requests.Any(r => r.Op == 'R' && r.Token == 5), "the release");
        }

        [Test]
        public async Task AReleaseSurvivesACutAndALeadershipLoss()
        {
            int releases = 0;
            Action<Received> grant = ScriptedServer.Friendly();
            ScriptedServer server = Serve(request =>
            {
                if (request.Op == 'A')
                {
                    grant(request);
                    return;
                }

                switch (Interlocked.Increment(ref releases))
                {
                    case 1:
                        request.Peer.Cut();
                        break;
                    case 2:
                        request.Peer.Reply('I', request.RequestId);
                        break;
                    default:
                        request.Peer.Reply('N', request.RequestId);
                        break;
                }
            });
            Broker broker = Connect(server.Address);
            Ticket ticket = await broker.AcquireAsync("k", Times);
            Assert.That(await ticket.ReleaseAsync(), Is.EqualTo(ReleaseOutcome.NotHeld));
            Assert.That(releases, Is.EqualTo(3));
        }

        [Test]
        public async Task AReplyToAnUnknownIdEndsTheSessionAndTheNextOneWorks()
        {
            ScriptedServer server = Serve(request => request.Peer.Reply('R', 99));
            Broker broker = Connect(server.Address);
            await Fails(ErrorCode.Indeterminate, () => broker.AcquireAsync("k", Times));
            server.Script(ScriptedServer.Friendly());
            Assert.That((await broker.AcquireAsync("k", Times)).Token, Is.EqualTo(1));
        }

        [Test]
        public async Task BadInputIsRefusedBeforeAnythingIsSent()
        {
            ScriptedServer server = Serve(ScriptedServer.Friendly());
            Broker broker = Connect(server.Address);
            await broker.ReadyAsync(TimeSpan.FromSeconds(5));
            foreach (string key in new[] { "", "a b", "a\n", "a\r", new string('k', 129), "\ud800" })
            {
                await Fails(ErrorCode.InvalidInput, () => broker.AcquireAsync(key, Times));
            }

            IEnumerable<string> many = Enumerable.Range(0, 17).Select(index => "k" + index);
            await Fails(ErrorCode.InvalidInput, () => broker.AcquireSetAsync(many, Times));
            await Fails(ErrorCode.InvalidInput, () => broker.AcquireSetAsync(Array.Empty<string>(), Times));
            TimeSpan lease = TimeSpan.FromSeconds(30);
            Refuses(() => new AcquireOptions(TimeSpan.FromSeconds(-1), lease));
            Refuses(() => new AcquireOptions(TimeSpan.FromSeconds(255.5), lease));
            Refuses(() => new AcquireOptions(TimeSpan.Zero, TimeSpan.Zero));
            Refuses(() => new AcquireOptions(TimeSpan.Zero, TimeSpan.FromSeconds(1.5)));
            Refuses(() => new AcquireOptions(TimeSpan.Zero, TimeSpan.FromSeconds(251)));
            Refuses(() => new AcquireOptions(TimeSpan.Zero, lease, lease));
            Assert.That(server.Requests, Is.Empty);
            Assert.That(new AcquireOptions(TimeSpan.FromSeconds(254.001), lease).WaitSeconds, Is.EqualTo(255));
        }

        [Test]
        public void BadBrokerOptionsAreRefused()
        {
            string fingerprint = new string('0', 64);
            Refuses(() => Broker.Connect(new BrokerOptions()));
            Refuses(() => Broker.Connect(new BrokerOptions("127.0.0.1")));
            Refuses(() => Broker.Connect(new BrokerOptions("127.0.0.1:0")));
            Refuses(() => Broker.Connect(new BrokerOptions("127.0.0.1:1", "127.0.0.1:2")));
            Refuses(() => Broker.Connect(new BrokerOptions("127.0.0.1:1", "127.0.0.1:2") { Fingerprint = fingerprint }));
            Refuses(() => Broker.Connect(new BrokerOptions("127.0.0.1:1") { Fingerprint = "00" }));
            Refuses(() => Broker.Connect(new BrokerOptions("10.0.0.1:1")));
            Refuses(() => Broker.Connect(new BrokerOptions("127.0.0.1:1").WithToken("short")));
            Refuses(() => Broker.Connect(new BrokerOptions("127.0.0.1:1") { PendingCountMax = 0 }));
        }

        [Test]
        public async Task CloseEndsEverythingAndIsIdempotent()
        {
            ScriptedServer server = Serve(request => { });
            Broker broker = Connect(server.Address);
            Task<Ticket> acquire = broker.AcquireAsync("k", Times);
            await ScriptedServer.Until(() => server.Requests.Count == 1, "the request");
            await broker.CloseAsync();
            await Fails(ErrorCode.Indeterminate, () => acquire);
            await broker.CloseAsync();
            await Fails(ErrorCode.Closed, () => broker.AcquireAsync("k", Times));
        }

        [Test]
        public async Task AForgottenTicketIsReleased()
        {
            ScriptedServer server = Serve(ScriptedServer.Friendly());
            Broker broker = Connect(server.Address);
            await Forget(broker);
            await ScriptedServer.Until(
                () =>
                {
                    GC.Collect();
                    return server.Requests.Any(request => request.Op == 'R');
                },
                "the release");
        }

        [Test]
        public async Task ManyCallersShareOneBroker()
        {
            ScriptedServer server = Serve(ScriptedServer.Friendly());
            Broker broker = Connect(server.Address);
            ReleaseOutcome[] outcomes = await Task.WhenAll(Enumerable.Range(0, 500).Select(async index =>
                await (await broker.AcquireAsync("k" + index, Times)).ReleaseAsync()));
            Assert.That(outcomes, Is.All.EqualTo(ReleaseOutcome.Released));
        }

        private static async Task Forget(Broker broker) => await Task.Run(() => broker.AcquireAsync("k", Times));

        private static void Refuses(TestDelegate action) => Assert.Throws<InvalidInputException>(action);

        private static async Task Fails(ErrorCode code, Func<Task> call)
        {
            try
            {
                await call();
            }
            catch (TicketingException failure)
            {
                Assert.That(failure.Code, Is.EqualTo(code));
                return;
            }

            Assert.Fail("expected " + code);
        }

        private ScriptedServer Serve(Action<Received> script) => Keep(new ScriptedServer(script).Start());

        private ScriptedServer Keep(ScriptedServer server)
        {
            cleanups.Add(() =>
            {
                server.Dispose();
                return Task.CompletedTask;
            });
            return server;
        }

        private Broker Connect(string address) => Connect(new BrokerOptions(address));

        private Broker Connect(BrokerOptions options)
        {
            Broker broker = Broker.Connect(options);
            cleanups.Add(broker.CloseAsync);
            return broker;
        }
    }
}
