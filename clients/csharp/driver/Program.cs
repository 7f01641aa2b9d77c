using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Ticketing.Conformance
{
    /// <summary>The conformance driver: the public API over standard input and output. Contract: conformance/DRIVER.md.</summary>
    internal static class Program
    {
        private static readonly Dictionary<string, string[]> Known = new Dictionary<string, string[]>
        {
            ["open"] = new[] { "addrs", "mode", "fingerprint", "token", "tls", "server_name", "pending" },
            ["ready"] = new[] { "broker", "timeout_ms" },
            ["acquire"] = new[] { "broker", "key", "wait_ms", "lease", "budget_ms" },
            ["acquire-set"] = new[] { "broker", "keys", "wait_ms", "lease", "budget_ms" },
            ["cancel"] = new[] { "target" },
            ["release"] = new[] { "ticket" },
            ["drop"] = new[] { "ticket" },
            ["close"] = new[] { "broker" },
            ["pairs"] = new[] { "broker", "key", "callers", "count" },
        };

        private static readonly UTF8Encoding Strict = new UTF8Encoding(false, true);
        private static readonly ConcurrentDictionary<string, Broker> Brokers = new ConcurrentDictionary<string, Broker>();
        private static readonly ConcurrentDictionary<string, Ticket> Tickets = new ConcurrentDictionary<string, Ticket>();
        private static readonly ConcurrentDictionary<string, CancellationTokenSource> Cancels =
            new ConcurrentDictionary<string, CancellationTokenSource>();

        private static readonly object Output = new object();

        private static async Task Main()
        {
            // Commands run concurrently from the start, so none may wait for the pool to grow.
            ThreadPool.SetMinThreads(64, 64);
            for (string? line = Console.ReadLine(); line != null; line = Console.ReadLine())
            {
                string[] words = line.Split(' ');
                _ = Answer(words[0], words[1], words.Skip(2).ToArray());
            }

            await Task.WhenAll(Brokers.Values.Select(broker => broker.CloseAsync()));
        }

        private static async Task Answer(string verb, string tag, string[] words)
        {
            string outcome;
            try
            {
                Dictionary<string, string> options = words.ToDictionary(
                    word => word.Substring(0, word.IndexOf('=')), word => word.Substring(word.IndexOf('=') + 1));
                if (!Known.TryGetValue(verb, out string[]? names) || options.Keys.Except(names).Any())
                {
                    throw new BadCommand();
                }

                outcome = await Run(verb, tag, options);
            }
            catch (RejectedException rejected)
            {
                outcome = "error Rejected " + rejected.RejectionCode;
            }
            catch (TicketingException failure)
            {
                outcome = "error " + failure.Code;
            }
            catch (OperationCanceledException)
            {
                outcome = "error Cancelled";
            }
            catch (BadCommand)
            {
                outcome = "error BadCommand";
            }

            lock (Output)
            {
                Console.Out.Write(tag + " " + outcome + "\n");
                Console.Out.Flush();
            }
        }

        private static async Task<string> Run(string verb, string tag, Dictionary<string, string> options)
        {
            switch (verb)
            {
                case "open":
                    Brokers[tag] = Broker.Connect(BrokerOptionsOf(options));
                    return "ok";
                case "ready":
                    await Find(Brokers, options["broker"]).ReadyAsync(Milliseconds(options["timeout_ms"]));
                    return "ok";
                case "acquire":
                case "acquire-set":
                    return await Acquire(tag, options);
                case "cancel":
                    Find(Cancels, options["target"]).Cancel();
                    return "ok";
                case "release":
                    ReleaseOutcome outcome = await Find(Tickets, options["ticket"]).ReleaseAsync();
                    return outcome == ReleaseOutcome.Released ? "released" : "not-held";
                case "drop":
                    Find(Tickets, options["ticket"]).Abandon();
                    return "ok";
                case "close":
                    await Find(Brokers, options["broker"]).CloseAsync();
                    return "ok";
                case "pairs":
                    return await Pairs(options);
                default:
                    throw new BadCommand();
            }
        }

        private static async Task<string> Acquire(string tag, Dictionary<string, string> options)
        {
            Broker broker = Find(Brokers, options["broker"]);
            TimeSpan budget = options.TryGetValue("budget_ms", out string? ms) ? Milliseconds(ms) : TimeSpan.Zero;
            TimeSpan lease = TimeSpan.FromSeconds(long.Parse(options["lease"], CultureInfo.InvariantCulture));
            var times = new AcquireOptions(Milliseconds(options["wait_ms"]), lease, budget);
            using var cancel = new CancellationTokenSource();
            Cancels[tag] = cancel;
            try
            {
                Ticket ticket = options.TryGetValue("key", out string? key)
                    ? await broker.AcquireAsync(Key(key), times, cancel.Token)
                    : await broker.AcquireSetAsync(Keys(options["keys"]), times, cancel.Token);
                Tickets[tag] = ticket;
                return $"granted token={ticket.Token} remaining_ms={(long)ticket.Remaining.TotalMilliseconds}";
            }
            finally
            {
                Cancels.TryRemove(tag, out _);
            }
        }

        private static async Task<string> Pairs(Dictionary<string, string> options)
        {
            Broker broker = Find(Brokers, options["broker"]);
            string prefix = Key(options["key"]);
            int callers = int.Parse(options["callers"], CultureInfo.InvariantCulture);
            int count = int.Parse(options["count"], CultureInfo.InvariantCulture);
            int left = count;
            int failed = 0;
            var times = new AcquireOptions(TimeSpan.FromSeconds(5), TimeSpan.FromSeconds(30));
            var watch = System.Diagnostics.Stopwatch.StartNew();
            await Task.WhenAll(Enumerable.Range(0, callers).Select(caller => Task.Run(async () =>
            {
                while (Interlocked.Decrement(ref left) >= 0)
                {
                    try
                    {
                        Ticket ticket = await broker.AcquireAsync(prefix + caller, times);
                        if (await ticket.ReleaseAsync() != ReleaseOutcome.Released)
                        {
                            Interlocked.Increment(ref failed);
                        }
                    }
                    catch (TicketingException)
                    {
                        Interlocked.Increment(ref failed);
                    }
                }
            })));
            return $"pairs count={count} failed={failed} nanoseconds={watch.Elapsed.Ticks * 100}";
        }

        private static BrokerOptions BrokerOptionsOf(Dictionary<string, string> options)
        {
            var result = new BrokerOptions(options["addrs"].Split(','));
            switch (options["mode"])
            {
                case "single":
                    break;
                case "cluster":
                    result.Fingerprint = options.TryGetValue("fingerprint", out string? fingerprint) ? fingerprint : "";
                    break;
                default:
                    throw new BadCommand();
            }

            if (options.TryGetValue("token", out string? token))
            {
                result.Token = Bytes(token);
            }

            if (options.TryGetValue("pending", out string? pending))
            {
                result.PendingCountMax = int.Parse(pending, CultureInfo.InvariantCulture);
            }

            result.Tls = Tls(options.TryGetValue("tls", out string? tls) ? tls : "off");
            if (result.Tls != null && options.TryGetValue("server_name", out string? name))
            {
                result.Tls = result.Tls.WithServerName(name);
            }

            return result;
        }

        private static TlsOptions? Tls(string option) => option switch
        {
            "off" => null,
            "system" => TlsOptions.SystemRoots(),
            "insecure" => TlsOptions.Insecure(),
            _ when option.StartsWith("ca:", StringComparison.Ordinal) => TlsOptions.CaFile(option.Substring(3)),
            _ => throw new BadCommand(),
        };

        private static IEnumerable<string> Keys(string hexes) =>
            hexes.Length == 0 ? Array.Empty<string>() : hexes.Split(',').Select(Key).ToArray();

        /// <summary>Bytes that are no UTF-8 cannot be a string: the type refuses them.</summary>
        private static string Key(string hex)
        {
            try
            {
                return Strict.GetString(Bytes(hex));
            }
            catch (DecoderFallbackException)
            {
                // A lone surrogate is how a string can be as wrong as those bytes; the API refuses it.
                return "\ud800";
            }
        }

        private static byte[] Bytes(string hex)
        {
            string digits = hex == "-" ? "" : hex;
            return Enumerable.Range(0, digits.Length / 2)
                .Select(index => byte.Parse(digits.Substring(2 * index, 2), NumberStyles.HexNumber, CultureInfo.InvariantCulture))
                .ToArray();
        }

        private static TimeSpan Milliseconds(string text) =>
            TimeSpan.FromMilliseconds(long.Parse(text, CultureInfo.InvariantCulture));

        private static T Find<T>(ConcurrentDictionary<string, T> map, string tag) =>
            map.TryGetValue(tag, out T found) ? found : throw new BadCommand();

        private sealed class BadCommand : Exception
        {
        }
    }
}
