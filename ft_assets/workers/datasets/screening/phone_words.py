"""Words beside a number that say what it is, in some forty languages."""

import re

# Before the number; in languages that write without spaces, or put endings to nouns, as stems.
_WORDS = (
    r"phones?|tel|telephone|mobile|cell|fax|desk|call(?:ing|ed)?(?: \w+)?(?: at| on)?|dial|text|sms|whatsapp|hotline|"
    r"helpline|messages? to|answering at|contact(?: \w+)? (?:at|on)|registered|reach(?: \w+)? (?:at|on)|"
    # German, Dutch, Scandinavian, Finnish, Hungarian
    r"telefon\w*|tlf|tfn|handy(?:nummer)?|mobil\w*|rufnummer|durchwahl|festnetz|telefoon\w*|gsm|bel(?: \w+)? op|"
    r"ring(?: \w+)? på|anrufen unter|erreichbar unter|erreichen(?: \w+)? unter|unter der nummer|puh|puhelin\w*|"
    r"puhelinnumero\w*|matkapuhelin\w*|sími|"
    # Romance
    r"tél|téléphone|portable|télécopie|appel\w* (?:au|le)|joign\w* au|teléfono\w*|tfno|"
    r"móvil|celular|llám\w*(?: al)?|llama\w*(?: al)?|telefone\w*|telemóvel|celulares|ligue(?: para)?|"
    r"ligar para|cellulare|cell|chiam\w*(?: al)?|recapito|telefonul|mobilul|sun\w*(?: la)|telèfon|"
    # Slavic, Baltic, Turkish, Greek
    r"komórk\w*|zadzwoń\w*(?: pod)?|dzwoń\w*(?: pod)?|volejte(?: na)?|volajte(?: na)?|zavolej\w*|"
    r"mobitel\w*|pozovite|tālr\w*|tālrunis|ara\w*yın|"
    r"τηλ\w*|κιν\w*|καλέστε(?: \w+)?|"
    r"тел|телефон\w*|моб|мобил\w*|"
    r"звон\w*(?: по)?|позвон\w*(?: по)?|"
    r"дзвон\w*(?: за)?|телефонуй\w*(?: за)?|"
    # Hebrew, Arabic, Persian
    r"טל|טלפון|נייד|"
    r"\w{0,2}هاتف|\w{0,2}جوال|تلفن|موبایل|"
    # Hindi, Thai, Vietnamese, Indonesian
    r"फ़?ोन|फोन|मोबाइल|"
    r"điện thoại|đt|sđt|gọi(?: số)?|telepon|no\.? hp|hubungi"
)
_STEMS = (
    r"電話(?:番号|號碼)?|携帯(?:電話)?|电话(?:号码)?|手机(?:号码|号)?|"
    r"手機(?:號碼)?|致电|拨打|전화(?:번호)?|휴대폰|연락처|핸드폰|"
    r"โทร(?:ศัพท์)?|เบอร์"
)
# Between the word and the number: "number", a verb, a particle or a full-width colon.
_LINKS = (
    r"number|no|nr|#|is|nummer|ist|lautet|numéro|número|numero|num|est|es|é|è|jest|je|on|er|är|"
    r"numer|číslo|broj|numara\w*|szám\w*|номер\w*|це|số|là|adalah|"
    r"מספר|رقم|شماره|नंबर|है|al|au|pod|na|op|på|auf|la|za"
)
SPOKEN_BEFORE = re.compile(
    rf"(?:\b(?:{_WORDS})(?: (?:{_LINKS}))*|(?:{_STEMS})(?:は|是|为|為|는|은|คือ)?)"
    r"[.:#：]{0,2}[ \t]*(?:\r?\n|\\n)?[ \t+(]*$",
    re.IGNORECASE,
)
SPOKEN_AFTER = re.compile(r"[ \t]?[ -]?\(?(?:office|fax|mobile|cell|home|work|landline|mobil|móvil)\b", re.IGNORECASE)
# Amounts and measures.
COUNTED_AFTER = re.compile(
    r" ?(?:[€$£¥₽₹₩%°円元]|(?:eur|euros?|usd|gbp|chf|pln|zł|kč|kr|sek|nok|dkk|huf|ft|lei|ron|tl|руб|"
    r"грн|mio|million\w*|miljoner|dollars?|pesos|reais|km|kg|cm|mm|m²|km²|ha|mb|gb|kb|bytes?|rows?|"
    r"tokens?|people|inhabitants|einwohner|habitants|habitantes|abitanti|mieszkańców|obyvatel)\b)",
    re.IGNORECASE,
)
