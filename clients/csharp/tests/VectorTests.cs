using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Text;
using System.Text.Json;
using NUnit.Framework;

namespace Ticketing.Tests
{
    /// <summary>The golden vectors: the same bytes as every other client and the server.</summary>
    [TestFixture]
    public sealed class VectorTests
    {
        public static IEnumerable<string> Topics() =>
            Directory.GetFiles(Folder(), "*.json").Select(Path.GetFileNameWithoutExtension).OrderBy(name => name)!;

        [TestCaseSource(nameof(Topics))]
        public void Topic(string topic)
        {
            using JsonDocument file = JsonDocument.Parse(File.ReadAllText(Path.Combine(Folder(), topic + ".json")));
            JsonElement[] cases = file.RootElement.GetProperty("cases").EnumerateArray().ToArray();
            Assert.That(cases, Has.Length.EqualTo(file.RootElement.GetProperty("case_count").GetInt32()));
            int run = cases.Count(Check);
            // This client has no way to send a broken frame.
            Assert.That(run > 0, Is.EqualTo(topic != "invalid-frame-request"), topic);
        }

        /// <summary>False when it is not for a client.</summary>
        private static bool Check(JsonElement vector)
        {
            bool isOk = Text(vector, "expect") == "ok";
            switch (Text(vector, "direction"))
            {
                case "request" when isOk:
                    Assert.That(Encode(vector.GetProperty("fields")), Is.EqualTo(Bytes(vector, "hex")), Text(vector, "id"));
                    return true;
                case "request":
                    return CheckBadKey(vector);
                case "reply":
                    CheckReply(vector, isOk);
                    return true;
                case "hello":
                    CheckHello(vector, isOk);
                    return true;
                case "proof":
                    return isOk && CheckProof(vector);
                case "result":
                    Assert.That(() => Handshake.CheckVerdict(Bytes(vector, "hex")[0]), Throws.InstanceOf<IOException>());
                    return true;
                default:
                    throw new InvalidDataException("unknown direction");
            }
        }

        private static byte[] Encode(JsonElement fields)
        {
            byte[][] keys = fields.TryGetProperty("key_hex", out _)
                ? new[] { Bytes(fields, "key_hex") }
                : fields.GetProperty("keys_hex").EnumerateArray().Select(key => Hex(key.GetString())).ToArray();
            ulong requestId = Number(fields, "request_id");
            return Text(fields, "op") == "A" || Text(fields, "op") == "S"
                ? Protocol.Acquire(requestId, (byte)Number(fields, "wait"), (byte)Number(fields, "lease"), keys)
                : Protocol.Release(requestId, Number(fields, "token"), keys);
        }

        private static bool CheckBadKey(JsonElement vector)
        {
            if (!vector.TryGetProperty("fields", out JsonElement fields)
                || !fields.TryGetProperty("key_hex", out _)
                || !vector.TryGetProperty("code", out JsonElement code)
                || code.ToString() != "1")
            {
                return false;
            }

            string key = Encoding.UTF8.GetString(Bytes(fields, "key_hex"));
            if (key.Contains('\ufffd'))
            {
                // A string cannot be bytes that are no UTF-8.
                return false;
            }

            Assert.Throws<InvalidInputException>(() => Keys.Checked(key), Text(vector, "id"));
            return true;
        }

        private static void CheckReply(JsonElement vector, bool isOk)
        {
            byte[] bytes = Bytes(vector, "hex");
            int voters = vector.GetProperty("voter_count").GetInt32();
            string id = Text(vector, "id");
            if (isOk)
            {
                Assert.That(Protocol.Decode(bytes, voters, out Reply reply), Is.EqualTo(bytes.Length), id);
                Assert.That(reply, Is.EqualTo(ExpectedReply(vector.GetProperty("fields"))), id);
                for (int cut = 0; cut < bytes.Length; cut++)
                {
                    Assert.That(Protocol.Decode(bytes.AsSpan(0, cut), voters, out _), Is.Zero, id);
                }
            }
            else if (Text(vector, "layer") == "correlation")
            {
                Assert.That(IsUncorrelated(vector, bytes, voters), id);
            }
            else
            {
                Assert.Throws<ProtocolFault>(() => Protocol.Decode(bytes, voters, out _), id);
            }
        }

        private static Reply ExpectedReply(JsonElement fields)
        {
            ulong Optional(string name) => fields.TryGetProperty(name, out _) ? Number(fields, name) : 0;
            byte detail = (byte)(fields.TryGetProperty("slot", out _) ? Optional("slot") : Optional("code"));
            return new Reply(Text(fields, "op")[0], Optional("request_id"), Optional("token"), detail);
        }

        private static bool IsUncorrelated(JsonElement vector, byte[] bytes, int voters)
        {
            var waiting = new Dictionary<ulong, char>();
            if (vector.TryGetProperty("requests_hex", out JsonElement requests))
            {
                foreach (byte[] frame in requests.EnumerateArray().Select(request => Hex(request.GetString())))
                {
                    ulong requestId = System.Buffers.Binary.BinaryPrimitives.ReadUInt64BigEndian(frame.AsSpan(3));
                    waiting.Add(requestId, (char)frame[0]);
                }
            }

            for (int used = 0; used < bytes.Length;)
            {
                used += Protocol.Decode(bytes.AsSpan(used), voters, out Reply reply);
                if (!waiting.TryGetValue(reply.RequestId, out char kind) || !reply.Answers(kind))
                {
                    return true;
                }

                waiting.Remove(reply.RequestId);
            }

            return false;
        }

        private static void CheckHello(JsonElement vector, bool isOk)
        {
            Expected expected = Text(vector, "mode") == "single"
                ? Expected.Single()
                : Expected.Member(vector.GetProperty("expected_slot").GetByte(), new byte[32]);
            byte[] hello = Bytes(vector, "hex");
            if (isOk)
            {
                Assert.That(Handshake.Prove(hello, expected, Array.Empty<byte>()), Has.Length.EqualTo(32));
            }
            else
            {
                Assert.Throws<ProtocolFault>(() => Handshake.Prove(hello, expected, Array.Empty<byte>()), Text(vector, "id"));
            }
        }

        private static bool CheckProof(JsonElement vector)
        {
            JsonElement fields = vector.GetProperty("fields");
            byte mode = (byte)(Text(vector, "mode") == "single" ? 0 : 1);
            byte slot = (byte)Number(fields, "slot");
            byte[] hello = Encoding.ASCII.GetBytes("TCKCLI3\0")
                .Concat(new byte[] { 0, (byte)Number(fields, "version"), mode, slot })
                .Concat(Bytes(fields, "nonce_hex"))
                .ToArray();
            Expected expected = Expected.Member(slot, Bytes(fields, "fingerprint_hex"));
            byte[] proof = Handshake.Prove(hello, expected, Bytes(fields, "token_hex"));
            Assert.That(proof, Is.EqualTo(Bytes(vector, "hex")), Text(vector, "id"));
            return true;
        }

        /// <summary>The repository's folder of vectors, above the one that the tests run in.</summary>
        private static string Folder()
        {
            string? folder = AppContext.BaseDirectory;
            while (folder != null && !Directory.Exists(Path.Combine(folder, "vectors")))
            {
                folder = Path.GetDirectoryName(folder);
            }

            return Path.Combine(folder ?? throw new DirectoryNotFoundException("vectors"), "vectors");
        }

        private static string Text(JsonElement element, string name) => element.GetProperty(name).GetString()!;

        private static ulong Number(JsonElement element, string name) =>
            ulong.Parse(Text(element, name), CultureInfo.InvariantCulture);

        private static byte[] Bytes(JsonElement element, string name) => Hex(Text(element, name));

        private static byte[] Hex(string? hex) =>
            Enumerable.Range(0, hex!.Length / 2)
                .Select(index => byte.Parse(hex.Substring(2 * index, 2), NumberStyles.HexNumber, CultureInfo.InvariantCulture))
                .ToArray();
    }
}
